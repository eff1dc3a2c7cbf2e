// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP
import TestSupport
import Testing
import Time

@testable import Sender

@Suite(.tags(.computing)) struct NodeLinkStateTests {
    private let nobody = StreamError.unknownHost("node")

    // MARK: Connecting

    @Test func `a link connects when its session has a submission, and once`() throws {
        var link = Link()
        link.wake()
        #expect(link.actions.isEmpty && link.state.isUnused)
        try link.add()
        link.wake()
        #expect(link.actions == [.dial(after: .zero)])
        link.wake()
        #expect(link.actions.isEmpty && !link.state.isUnused)
        let begins = link.begins()
        #expect(begins)
        #expect(link.actions == [.report(.connecting)])
        link.connect()
        #expect(link.actions.count == 2 && link.actions.last == .report(.connected))
        #expect(link.state.isConnected && link.state.node.state == .connected)
    }

    @Test func `a link whose submissions went to another node during the pause does not connect`() throws {
        var link = Link()
        let request = try link.add()
        link.wake()
        link.state.session.remove(request)
        let begins = link.begins(isNeeded: false)
        #expect(!begins)
        #expect(link.actions.isEmpty && link.state.isUnused && link.state.node.state == .unused)
    }

    @Test func `submissions move where the node cannot be reached, and it is tried again while some need it`() throws {
        var link = Link()
        let request = try link.add()
        link.wake()
        link.begins()
        link.fails(nobody)
        #expect(
            link.actions == [
                .report(.retrying(reason: nobody.description, after: .milliseconds(250))),
                .report(.unusable(requests: [request], because: .nothingThere(nobody.description))), .wake,
            ])
        #expect(link.state.node.state == .down)
        link.wake(isNeeded: false)
        #expect(link.actions.isEmpty)
        link.now = link.now + .milliseconds(100)
        link.wake()
        #expect(link.actions == [.dial(after: .milliseconds(150))])
    }

    @Test func `nobody at the node's address is a likely mistake, but not behind a proxy`() throws {
        for (proxy, isMistake) in [(nil, true), (Proxy.socks5(.tcp(host: "127.0.0.1", port: 9050), nil), false)] {
            var link = Link(through: proxy)
            try link.add()
            link.wake()
            link.begins()
            link.fails(nobody)
            #expect(link.state.failure?.isLikelyMistake == isMistake)
        }
    }

    @Test func `connecting is slow after a quarter of its time, and each second from then on`() throws {
        var link = Link()
        let request = try link.add()
        link.wake()
        link.watch()
        #expect(link.actions == [.wake])
        link.begins()
        link.now = link.now + .milliseconds(14_999)
        link.watch()
        #expect(link.actions == [.wake] && !link.state.node.isSlow)
        for _ in 0..<2 {
            link.now = link.now + .seconds(1)
            link.watch()
            #expect(link.actions == [.report(.slow(requests: [request])), .wake])
        }
        link.connect()
        #expect(!link.state.node.isSlow)
    }

    @Test func `a closed link does nothing any more`() throws {
        var link = Link()
        try link.add()
        link.wake()
        link.close()
        #expect(link.actions == [.disconnect])
        let begins = link.begins()
        #expect(!begins)
        link.fails(nobody)
        #expect(link.actions.isEmpty)
        link.wake()
        #expect(link.actions.isEmpty)
    }

    // MARK: Ends of connections

    @Test func `a lost connection of a node that said WELCOME is opened again, with its submissions`() throws {
        var link = try Link.welcomed()
        let request = try link.add()
        link.flush()
        link.end("reset")
        #expect(
            link.actions == [
                .disconnect, .report(.retrying(reason: "reset", after: .milliseconds(250))),
                .dial(after: .milliseconds(250)),
            ])
        #expect(link.state.session.requests == [request] && link.state.node.isUsable)
    }

    @Test func `a lost connection without submissions is not opened again`() throws {
        var link = try Link.welcomed()
        link.end("reset")
        #expect(link.actions == [.disconnect])
        #expect(link.state.isUnused && link.state.node.state == .unused)
    }

    @Test func `submissions move after a loss before WELCOME, and after the fourth in a row`() throws {
        var early = try Link.connected()
        early.end("reset")
        #expect(early.moves([1]) && early.state.node.state == .down)

        var link = try Link.welcomed()
        let request = try link.add()
        for _ in 0..<3 {
            link.flush()
            link.end("reset")
            #expect(!link.moves([request]))
            link.begins()
            link.connect()
            link.receive(welcomeFrame())
        }
        link.flush()
        link.end("reset")
        #expect(link.moves([request]))
    }

    @Test func `a RESULT shows that the node works: losses count from the first again`() throws {
        var link = try Link.welcomed()
        let first = try link.add()
        let second = try link.add()
        for _ in 0..<3 {
            link.end("reset")
            link.begins()
            link.connect()
            link.receive(welcomeFrame())
            link.flush()
        }
        link.receive(resultFrame(first, .delivered()))
        #expect(link.reports(.answered(SubmissionResult(request: first, outcome: .delivered()))))
        link.end("reset")
        #expect(!link.moves([second]))
    }

    @Test func `a node that shuts down answers what is in flight; the rest moves at once`() throws {
        var link = try Link.welcomed(inFlight: 1)
        let sent = try link.add()
        let waiting = try link.add()
        link.flush()
        let goAway = GoAway(code: .shuttingDown, retryAfter: 5000, text: "bye")
        link.receive(goAwayFrame(goAway))
        #expect(link.actions == [.report(.unusable(requests: [waiting], because: .closing(goAway)))])
        #expect(link.state.isConnected && link.state.node.state == .down)
        link.state.session.remove(waiting)
        link.receive(resultFrame(sent, .delivered()))
        link.watch()
        #expect(
            link.actions == [
                .disconnect, .report(.retrying(reason: "bye", after: .seconds(5))),
                .report(.unusable(requests: [], because: .closing(goAway))), .wake,
            ])
        #expect(link.state.failure == .closing(goAway))
    }

    @Test func `GOAWAY for idleness costs the node nothing`() throws {
        var link = try Link.welcomed()
        link.receive(goAwayFrame(GoAway(code: .idle)))
        #expect(link.actions == [.disconnect])
        #expect(link.state.node.isUsable)
    }

    @Test
    func `a GOAWAY that the next connection would get, too, and bytes that are no TNP stop the link for a minute`()
        throws
    {
        let blocked = GoAway(code: .abuse, retryAfter: 1000)
        for (bytes, failure) in [
            (goAwayFrame(blocked), NodeLink.Failure.refused(blocked)),
            (Array(repeating: 0xff, count: 20), .protocolError("")),
        ] {
            var link = try Link.welcomed()
            let request = try link.add()
            link.flush()
            link.receive(bytes)
            #expect(link.actions.count == 2 && link.actions.first == .disconnect && link.moves([request]))
            switch link.state.failure {
            case .protocolError: #expect(failure == .protocolError(""))
            default: #expect(link.state.failure == failure)
            }
            link.now = link.now + .milliseconds(59_999)
            link.wake()
            #expect(link.actions.isEmpty)
            link.now = link.now + .milliseconds(1)
            link.wake()
            #expect(link.actions == [.report(.usable), .wake])
            link.wake()
            #expect(link.actions == [.dial(after: .zero)])
        }
    }

    @Test func `what follows the end of a connection in the same bytes does not change it, but results count`() throws {
        let junk = [UInt8](repeating: 0xff, count: 20)
        // A submission that waits for a slot is a reason to connect again, and the junk none to refuse the node.
        var link = try Link.welcomed(inFlight: 0)
        let request = try link.add()
        link.flush()
        link.receive(goAwayFrame(GoAway(code: .idle)) + junk)
        #expect(
            link.actions == [
                .disconnect, .report(.retrying(reason: "", after: .milliseconds(250))),
                .dial(after: .milliseconds(250)),
            ])
        #expect(link.state.node.isUsable && link.state.session.requests == [request])
        let begins = link.begins()
        #expect(begins)

        // The first reason is the one that counts.
        var blocked = try Link.welcomed()
        let goAway = GoAway(code: .abuse, retryAfter: 90_000)
        let sent = try blocked.add()
        blocked.flush()
        blocked.receive(goAwayFrame(goAway) + resultFrame(sent, .delivered()) + junk)
        #expect(blocked.state.failure == .refused(goAway))
        #expect(blocked.reports(.answered(SubmissionResult(request: sent, outcome: .delivered()))))
    }

    @Test func `a node leaves before its results in the same bytes are known: nothing new goes to it`() throws {
        var link = try Link.welcomed()
        let request = try link.add()
        link.flush()
        link.receive(resultFrame(request, .delivered()) + goAwayFrame(GoAway(code: .shuttingDown)))
        #expect(link.actions.first == .report(.answered(SubmissionResult(request: request, outcome: .delivered()))))
        #expect(!link.state.node.isUsable && link.state.isUnused)
    }

    @Test func `a node that does not know the site is refused for a minute`() throws {
        let key = try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: 5, count: 32)))
        var link = Link(site: key)
        let request = try link.add()
        link.wake()
        link.begins()
        link.connect()
        link.receive(welcomeFrame(.siteKeys))
        #expect(link.actions.count == 2)
        var refusal: [UInt8] = []
        refusal.append(SiteAuthenticationResult(kind: .rejected, reason: .notASite, name: nil))
        link.receive(refusal)
        #expect(
            link.actions == [.disconnect, .report(.unusable(requests: [request], because: .siteRefused))])
        #expect(link.state.node.state == .refused)
    }

    @Test func `a search for a proof of work begins and ends by the session's word`() throws {
        var link = Link(doesWork: true)
        let request = try link.add(workLimit: .seconds(10))
        link.wake()
        link.begins()
        link.connect()
        link.receive(welcomeFrame(puzzle: makePuzzle(1000)))
        link.flush()
        #expect(link.reports(.solving(effort: 1000)))
        let deadlines = link.actions.compactMap {
            if case .solve(request, _, _, let deadline) = $0 { deadline } else { nil }
        }
        #expect(deadlines == [link.now + .seconds(10)])
        link.searchEnded(request)
        let outcomes = link.actions.compactMap {
            if case .report(.answered(let result)) = $0 { result.outcome.kind } else { nil }
        }
        #expect(outcomes == [.retry])
    }

    @Test func `abandoned submissions that occupy all slots end the connection`() throws {
        var link = try Link.welcomed(inFlight: 1)
        let abandoned = try link.add()
        link.flush()
        try link.add()
        link.flush()
        #expect(link.actions.isEmpty)
        link.state.session.remove(abandoned)
        link.flush()
        #expect(link.actions.first == .disconnect && link.actions.last == .dial(after: .milliseconds(250)))
    }

    @Test func `a link without submissions closes on demand, although the node owes an answer`() throws {
        var link = try Link.welcomed()
        let request = try link.add()
        link.flush()
        link.closeIfEmpty()
        #expect(link.actions.isEmpty && link.state.isConnected)
        link.state.session.remove(request)
        link.closeIfEmpty()
        #expect(link.actions == [.disconnect])
        #expect(link.state.isUnused && link.state.node.state == .unused)
    }

    // MARK: Time

    @Test func `a silent node that owes an answer gets one PING, and has gone after forty seconds`() throws {
        var link = try Link.welcomed()
        try link.add()
        link.flush()
        var ping: [UInt8] = []
        ping.append(ping: Link.opaque(8)[...])
        for second in 1..<40 {
            link.now = link.now + .seconds(1)
            link.watch()
            #expect(link.actions == (second == 20 ? [.send(ping)] : []))
        }
        link.now = link.now + .seconds(1)
        link.watch()
        #expect(link.actions.first == .disconnect)
        #expect(link.state.failure == .unreachable("the node stopped responding"))
    }

    @Test func `any frame shows that the node is there`() throws {
        var link = try Link.welcomed()
        try link.add()
        link.flush()
        for _ in 0..<5 {
            link.now = link.now + .seconds(19)
            var pong: [UInt8] = []
            pong.append(pong: Link.opaque(8)[...])
            link.receive(pong)
            link.watch()
            #expect(link.actions.isEmpty)
        }
    }

    @Test func `an idle connection closes after a minute, or three quarters of the node's idle timeout`() throws {
        for (idleTimeout, seconds) in [(UInt32(600), 60), (40, 30)] {
            var link = try Link.welcomed(idleTimeout: idleTimeout)
            link.watch()
            link.now = link.now + (.seconds(seconds) - .milliseconds(1))
            link.watch()
            #expect(link.actions.isEmpty)
            link.now = link.now + .milliseconds(1)
            link.watch()
            #expect(link.actions == [.disconnect])
            #expect(link.state.node.state == .unused)
        }
    }
}

/// Drives a link's state, and keeps the actions of the last event.
private struct Link {
    var state: NodeLinkState
    var now = MonotonicTime(nanoseconds: 1_000_000_000)
    private(set) var actions: [NodeLinkState.Action] = []

    static func opaque(_ count: Int) -> [UInt8] { [UInt8](repeating: 9, count: count) }

    init(through proxy: Proxy? = nil, doesWork: Bool = false, site: Ed25519.PrivateKey? = nil) {
        let node = Endpoint.tcp(host: "node", port: 7077)
        let destination = Destination(node, through: proxy, timeout: .seconds(60))
        let session = SenderSession(
            doesWork: doesWork, site: site.map { SiteIdentity($0, at: node) })
        state = NodeLinkState(session: session, destination: destination, agent: "", now: now)
    }

    /// A connected link with a submission.
    static func connected() throws -> Link {
        var link = Link()
        try link.add()
        link.wake()
        link.begins()
        link.connect()
        link.flush()
        return link
    }

    /// A connected link without submissions, after WELCOME.
    static func welcomed(inFlight: UInt16 = 64, idleTimeout: UInt32 = 600) throws -> Link {
        var link = try connected()
        link.receive(welcomeFrame(inFlight: inFlight, idleTimeout: idleTimeout))
        link.receive(resultFrame(1, .delivered()))
        return link
    }

    @discardableResult mutating func add(workLimit: Duration = .zero) throws -> UInt32 {
        let submission = Submission(request: 0, envelope: try makeEnvelope(state.session.requests.count))
        return state.session.add(PendingSubmission(submission, workLimit: workLimit))
    }

    func reports(_ event: NodeLink.Event) -> Bool { actions.contains(.report(event)) }

    /// Whether these submissions are to move to another node.
    func moves(_ requests: [UInt32]) -> Bool {
        actions.contains {
            if case .report(.unusable(requests, _)) = $0 { true } else { false }
        }
    }

    private mutating func event<R>(_ event: (inout NodeLinkState, inout [NodeLinkState.Action]) -> R) -> R {
        actions = []
        return event(&state, &actions)
    }

    // The waits have no jitter: the random number is the largest.
    private static func random() -> Double { 1 }

    mutating func wake(isNeeded: Bool = true) {
        let now = now
        event { $0.wake(isNeeded: isNeeded, now: now, &$1) }
    }

    @discardableResult mutating func begins(isNeeded: Bool = true) -> Bool {
        let now = now
        return event { $0.beginsDialling(isNeeded: isNeeded, now: now, &$1) }
    }

    mutating func connect() {
        let now = now
        event { $0.connected(now: now, &$1) }
    }

    mutating func fails(_ error: StreamError) {
        let now = now
        event { $0.couldNotConnect(error, now: now, random: Self.random, &$1) }
    }

    mutating func receive(_ bytes: [UInt8]) {
        let now = now
        event { $0.received(bytes.span.bytes, now: now, random: Self.random, &$1) }
    }

    mutating func flush() {
        let now = now
        event { $0.flush(now: now, random: Self.random, &$1) }
    }

    mutating func searchEnded(_ request: UInt32) {
        let now = now
        event { $0.searchEnded(request, now: now, random: Self.random, &$1) }
    }

    mutating func end(_ reason: String) {
        let now = now
        event { $0.ended(reason, now: now, random: Self.random, &$1) }
    }

    mutating func watch() {
        let now = now
        event { $0.watch(now: now, random: Self.random, opaque: Self.opaque, &$1) }
    }

    mutating func close() { event { $0.close(&$1) } }

    mutating func closeIfEmpty() { event { $0.closeIfEmpty(&$1) } }
}
