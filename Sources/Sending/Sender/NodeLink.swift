// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Glibc
import TNP
import Time

/// Receives the events of its links, on their loop.
package protocol NodeLinkOwner: AnyObject {
    /// Whether submissions wait that may go to this link's node; if not, the link does not reconnect.
    func needs(_ link: NodeLink) -> Bool
    /// Handles an event of a link.
    func handle(_ event: NodeLink.Event, of link: NodeLink)
}

/// One sender's access to one node: a ``SenderSession`` and its connection. Connects when the session has submissions,
/// connects again when it loses the connection, and closes an idle one.
package final class NodeLink: ByteStreamHandler, TurnEndHandler, @unchecked Sendable {
    // Unchecked: used on the loop's thread only: by its owner, its stream, and tasks that prefer the loop's executor.

    /// What the owner learns of a link.
    package enum Event: Sendable {
        /// The link is connecting to the node.
        case connecting
        /// The link is connected: the node is usable, and gets HELLO and the session's submissions.
        case connected
        /// The node has answered with WELCOME.
        case welcomed(Welcome)
        /// A submission has an outcome, which may be QUEUED.
        case answered(SubmissionResult)
        /// The link could not connect or lost the connection; it tries again after this time.
        case retrying(reason: String, after: Duration)
        /// The link searches for a proof of work, with `effort` hashes expected.
        case solving(effort: UInt32)
        /// The pause of a node that had refused is over: it is usable.
        case usable
        /// Connecting takes long: these submissions should move to another node that can be used and is not slow, if there is
        /// one. Comes each second.
        case slow(requests: [UInt32])
        /// The node takes none of these submissions now: they should move to another node.
        case unusable(requests: [UInt32])
    }

    /// Why the last attempt to connect failed or the last connection ended.
    package enum Failure: Equatable, Sendable {
        /// The node could not be reached, or the connection was lost, for this reason.
        case unreachable(String)
        /// The node closed the connection with this GOAWAY, and may be used again later.
        case closing(GoAway)
        /// The proxy could not be reached, for this reason.
        case proxyUnreachable(Endpoint, String)
        /// The node sent this GOAWAY, and would close the next connection for the same reason.
        case refused(GoAway)
        /// The peer does not speak TNP, for this reason.
        case foreign(String)
        /// The node does not know the sender's site key.
        case siteRefused
        /// Without a proxy, nothing answers at the node's address, for this reason.
        case nothingThere(String)

        /// Whether waiting is not likely to change it: a wrong address, or a proxy that does not run.
        package var isLikelyMistake: Bool {
            switch self {
            case .proxyUnreachable, .nothingThere: true
            case .unreachable, .closing, .refused, .foreign, .siteRefused: false
            }
        }

        package var text: String {
            switch self {
            case .unreachable(let reason), .nothingThere(let reason): reason
            case .closing(let goAway): goAway.text.isEmpty ? "the node sent GOAWAY" : goAway.text
            case .proxyUnreachable(let endpoint, let reason):
                "the SOCKS proxy at \(endpoint) cannot be reached: \(reason)"
            case .refused(let goAway): "connection closed: \(Self.text(goAway))"
            case .siteRefused: "connection closed: \(SiteIdentity.refusal)"
            case .foreign(let reason): "connection closed: the node does not speak TNP (\(reason))"
            }
        }

        private static func text(_ goAway: GoAway) -> String {
            let text = goAway.text.isEmpty ? "GOAWAY with code \(goAway.code.rawValue)" : goAway.text
            guard goAway.retryAfter > 0 else { return text }
            return "\(text); try again in \((UInt64(clamping: goAway.retryAfter) + 999) / 1000) s"
        }
    }

    /// How long a node that owes an answer may be silent before the link sends PING.
    private static let pingAfter = Duration.seconds(20)
    /// How long such a node may be silent before the link closes the connection.
    private static let silenceLimit = Duration.seconds(40)
    /// How long an idle connection stays open; less if the node's idle timeout is short.
    private static let idleTime = Duration.seconds(60)
    /// The bytes of unsent output above which the link does not answer PING.
    private static let maximumUnsent = 1024 * 1024

    /// The owner's number of the link.
    package let id: Int
    /// The node.
    package let destination: Destination
    private let agent: String
    /// What the owner knows of the node.
    package var node = NodeState()
    /// The submissions at this node.
    package var session: SenderSession
    /// Why the last attempt failed or the last connection ended.
    package private(set) var failure: Failure?
    /// When the current connection began, or the last one.
    package private(set) var connectedAt = MonotonicTime.now

    private let loop: EventLoop
    private let slots: SearchSlots
    private unowned let owner: any NodeLinkOwner
    private var stream: ByteStream?
    /// What the link sends in this turn of the loop, in one write.
    private var output: [UInt8] = []
    /// The running attempt to connect, with the pause before it.
    private var dialling: Task<Void, Never>?
    /// When that attempt began; `nil` during the pause, and if there is none.
    private var diallingSince: MonotonicTime?
    /// The node's GOAWAY on the current connection.
    private var leaving: GoAway?
    /// When the last whole frame arrived, or the node began to owe an answer.
    private var lastFrame = MonotonicTime.now
    /// Whether the link has sent PING since the last frame.
    private var hasPinged = false
    /// Since when nothing is to be done; `nil` if there is something.
    private var idleSince: MonotonicTime?
    /// The running searches for proofs of work, by request.
    private(set) var searches: [UInt32: (task: Task<Void, Never>, ticket: SearchSlots.Ticket)] = [:]
    private var isClosed = false

    /// A link without a connection.
    /// - Parameters:
    ///   - destination: the node.
    ///   - agent: the agent in HELLO, at most 64 bytes of UTF-8.
    ///   - slots: shared by all links whose searches for proofs of work are limited together.
    ///   - owner: receives the events; not retained.
    package init(
        _ id: Int, to destination: Destination, agent: String, session: SenderSession, slots: SearchSlots,
        owner: any NodeLinkOwner, on loop: EventLoop
    ) {
        self.id = id
        self.destination = destination
        self.agent = agent
        self.session = session
        self.slots = slots
        self.owner = owner
        self.loop = loop
    }

    deinit { stream?.close() }

    /// Whether the link is connected.
    package var isConnected: Bool { stream != nil }

    /// Whether the link neither is connected nor connects.
    package var isUnused: Bool { stream == nil && dialling == nil }

    /// Closes the connection for good; the session keeps its submissions.
    package func close() {
        isClosed = true
        dialling?.cancel()
        for request in searches.keys { stopSolving(request) }
        disconnect()
    }

    /// Closes the connection if nothing is pending, although the node may owe answers to abandoned submissions. The link
    /// connects again when it has a submission.
    package func closeIfEmpty() {
        guard stream != nil, session.isEmpty else { return }
        disconnect()
        node.state = .unused
    }

    // MARK: Connecting

    /// Connects if submissions need the node and its pause is over; then sends what is due.
    package func wake() {
        let now = MonotonicTime.now
        if node.revive(now: now) { owner.handle(.usable, of: self) }
        if isUnused, !isClosed {
            if node.state == .unused, !session.isEmpty {
                dial(after: .zero)
            } else if node.state == .down, owner.needs(self) {
                dial(after: max(.zero, node.retryAt - now))
            }
        }
        flush()
    }

    private func dial(after pause: Duration) {
        if node.state == .unused { node.state = .connecting }
        dialling = Task(executorPreference: loop) { [self] in
            if pause > .zero { await loop.sleep(for: pause) }
            guard !isClosed, !Task.isCancelled else { return }
            guard owner.needs(self) else {
                dialling = nil
                if node.state == .connecting { node.state = .unused }
                return
            }
            owner.handle(.connecting, of: self)
            diallingSince = .now
            do throws(StreamError) {
                connected(try await loop.dial(destination))
            } catch {
                guard !isClosed else { return }
                endDialling()
                switch error {
                case .proxyUnreachable(let endpoint, let reason): fail(.proxyUnreachable(endpoint, reason))
                case _ where destination.proxy == nil && error.isNothingThere: fail(.nothingThere(error.description))
                default: fail(.unreachable(error.description))
                }
            }
        }
    }

    private func endDialling() {
        dialling = nil
        diallingSince = nil
        node.isSlow = false
    }

    private func connected(_ stream: ByteStream) {
        guard !isClosed else { return stream.close() }
        stream.handler = self
        self.stream = stream
        endDialling()
        leaving = nil
        failure = nil
        hasPinged = false
        idleSince = nil
        node.state = .connected
        connectedAt = .now
        lastFrame = .now
        send(session.connected(agent: agent))
        owner.handle(.connected, of: self)
        flush()
        stream.resumeReading()
    }

    /// Marks the node as down. Its submissions move to other nodes, and it is tried again later.
    private func fail(_ failure: Failure, atLeast minimum: Duration = .zero) {
        self.failure = failure
        node.state = .down
        pause(atLeast: minimum)
        owner.handle(.unusable(requests: session.requests), of: self)
        wake()
    }

    @discardableResult
    private func pause(atLeast minimum: Duration = .zero) -> Duration {
        let pause = node.failed(
            now: .now, random: SecureRandom.fraction(), atLeast: minimum,
            byMistake: failure?.isLikelyMistake ?? false)
        owner.handle(.retrying(reason: failure?.text ?? "", after: pause), of: self)
        return pause
    }

    // MARK: Connected

    package func stream(_ stream: ByteStream, received bytes: RawSpan) {
        var actions: [SenderSession.Action] = []
        var fault: ProtocolError?
        do throws(ProtocolError) {
            if try session.received(bytes, &actions) {
                lastFrame = .now
                hasPinged = false
            }
        } catch {
            fault = error
        }
        for action in actions { perform(action) }
        if let fault {
            refuse(.foreign("\(fault)"), retryAfter: 0)
        } else {
            flush()
        }
    }

    package func stream(_ stream: ByteStream, ended reason: StreamError) { ended(reason.description) }

    package func turnEnded() {
        stream?.write(output)
        output.removeAll(keepingCapacity: true)
    }

    private func send(_ bytes: [UInt8]) {
        guard stream != nil, !bytes.isEmpty else { return }
        if output.isEmpty { loop.atEndOfTurn(self) }
        output += bytes
    }

    /// Handles the end of a connection. After a GOAWAY other than idle, before WELCOME, or after three losses in a row, the
    /// node is down and its submissions move. Otherwise the link connects again, because the node may already have the
    /// submissions in flight.
    private func ended(_ reason: String) {
        guard stream != nil else { return }
        let isProved = session.welcome != nil && !node.isUnreliable
        disconnect()
        if let leaving, leaving.code != .idle {
            fail(.closing(leaving), atLeast: .milliseconds(Int64(clamping: leaving.retryAfter)))
        } else if isProved {
            reconnect(reason)
        } else {
            fail(.unreachable(reason))
        }
    }

    private func reconnect(_ reason: String) {
        failure = .unreachable(reason)
        node.state = .unused
        guard !session.isEmpty, !isClosed else { return }
        dial(after: pause())
    }

    private func disconnect() {
        stream?.close()
        stream = nil
        output.removeAll(keepingCapacity: true)
        session.disconnected()
    }

    /// Closes the connection and marks the node as refusing, until its pause is over.
    private func refuse(_ failure: Failure, retryAfter: UInt32) {
        guard !isClosed else { return }
        disconnect()
        dialling?.cancel()
        endDialling()
        self.failure = failure
        node.refused(now: .now, atLeast: .milliseconds(Int64(clamping: retryAfter)))
        owner.handle(.unusable(requests: session.requests), of: self)
    }

    /// Performs what is due in the session.
    package func flush() {
        for action in session.flush(now: .now) { perform(action) }
        if stream != nil, session.isBlockedByAbandoned {
            disconnect()
            reconnect("abandoned submissions occupy all slots")
        }
    }

    private func perform(_ action: SenderSession.Action) {
        // The owner may have closed the link, and gone, at an earlier action of the same bytes.
        guard !isClosed else { return }
        switch action {
        case .welcomed(let welcome): owner.handle(.welcomed(welcome), of: self)
        case .result(let result):
            node.answered()
            owner.handle(.answered(result), of: self)
        case .goAway(let goAway, let isFatal):
            guard stream != nil else { return }
            isFatal ? refuse(.refused(goAway), retryAfter: goAway.retryAfter) : leave(goAway)
        case .siteRefused: refuse(.siteRefused, retryAfter: 0)
        case .send(let bytes): send(bytes)
        case .pong(let bytes):
            // A node that sends PING but does not read gets no answer.
            if let stream, output.count + stream.unsent < Self.maximumUnsent { send(bytes) }
        case .solve(let request, let digest, let puzzle, let deadline):
            owner.handle(.solving(effort: puzzle.effort), of: self)
            solve(request, digest, puzzle, until: deadline)
        case .stopSolving(let request): stopSolving(request)
        }
    }

    private func leave(_ goAway: GoAway) {
        leaving = goAway
        if goAway.code == .idle {
            // The node works: submissions it has not accepted wait for the next connection.
            node.state = .connecting
        } else {
            node.state = .down
            failure = .closing(goAway)
            owner.handle(.unusable(requests: session.waiting), of: self)
        }
        if !goAway.code.answersInFlight || !session.isInFlight { ended("") }
    }

    // MARK: Proof of work

    private func solve(_ request: UInt32, _ digest: Digest256, _ puzzle: Puzzle, until deadline: MonotonicTime) {
        let limit = deadline - .now
        let ticket = slots.ticket()
        let task = Task(executorPreference: loop, priority: .utility) { [self] in
            guard await slots.acquire(ticket) else { return }
            defer { slots.release() }
            guard !Task.isCancelled else { return }
            // The search may have waited: its time begins now.
            session.searchBegan(request, now: .now)
            let deadline = MonotonicTime.now + limit
            var random = SecureRandom.Generator()
            let start = random.next()
            let proof = await withTaskExecutorPreference(loop.workers) {
                await puzzle.proof(for: digest, until: deadline, from: start)
            }
            // Ignore a cancelled search: another may be running for the same request.
            guard !Task.isCancelled else { return }
            searches[request] = nil
            if let proof {
                session.solved(request, proof, now: .now)
            } else {
                for action in session.searchEnded(request) { perform(action) }
            }
            flush()
        }
        searches[request] = (task, ticket)
    }

    /// Takes a submission back, for another node.
    package func withdraw(_ request: UInt32) -> PendingSubmission? {
        session.endSearch(for: request, now: .now)
        stopSolving(request)
        return session.remove(request)
    }

    /// Cancels the search for a request's proof.
    package func stopSolving(_ request: UInt32) {
        guard let (task, ticket) = searches.removeValue(forKey: request) else { return }
        task.cancel()
        slots.abandon(ticket)
    }

    // MARK: Time

    /// Watches for silence and idleness. Call it about once a second while the link is in use.
    package func watch(now: MonotonicTime) {
        guard stream != nil else {
            if let diallingSince, now - diallingSince >= destination.timeout * NodeState.slowPart {
                node.isSlow = true
                owner.handle(.slow(requests: session.requests), of: self)
            }
            return wake()
        }
        if leaving != nil, !session.isInFlight {
            ended("")
        } else if session.isOwedAnswer || leaving != nil {
            idleSince = nil
            if now - lastFrame >= Self.silenceLimit {
                ended("the node stopped responding")
            } else if now - lastFrame >= Self.pingAfter, !hasPinged, session.welcome != nil {
                hasPinged = true
                var ping: [UInt8] = []
                ping.append(ping: SecureRandom.bytes(8)[...])
                send(ping)
            }
        } else if session.isEmpty {
            let since = idleSince ?? now
            idleSince = since
            lastFrame = now
            let limit = Duration.milliseconds(Int64(clamping: session.welcome?.idleTimeout ?? 0) * 750)
            if now - since >= min(Self.idleTime, limit) {
                disconnect()
                node.state = .unused
            }
        } else {
            idleSince = nil
            // A node that owes nothing may be silent.
            lastFrame = now
        }
    }
}

extension StreamError {
    /// Whether no name or nobody is at an address: a node that is only slow or far away fails otherwise.
    fileprivate var isNothingThere: Bool {
        switch self {
        case .unknownHost: true
        case .system(let reason): [ECONNREFUSED, ENOENT].contains { reason == String(cString: strerror($0)) }
        default: false
        }
    }
}
