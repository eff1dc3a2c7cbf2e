// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP
import Time

/// The state machine of one sender's access to one node: decides when to connect, what the end of a connection means
/// for the submissions in its ``SenderSession``, when a silent node counts as lost, and when an idle connection closes.
/// Takes events, time and randomness, returns actions, and has no I/O and no clock.
struct NodeLinkState {
    /// What the caller does after an event. It performs the actions in the order of the array.
    enum Action: Equatable {
        /// Call ``beginsDialling(isNeeded:now:_:)`` after this pause, and connect if it returns true.
        case dial(after: Duration)
        /// Close the connection, and drop what has not been sent.
        case disconnect
        /// Send these bytes.
        case send([UInt8])
        /// Send these bytes, unless too many are unsent: the answer to a PING.
        case pong([UInt8])
        /// Search for a proof of work, as ``SenderSession/Action/solve(request:digest:puzzle:until:)`` says.
        case solve(request: UInt32, digest: Digest256, puzzle: Puzzle, until: MonotonicTime)
        /// Cancel the search for this request's proof.
        case stopSolving(UInt32)
        /// Tell the owner of this event.
        case report(NodeLink.Event)
        /// Call ``wake(isNeeded:now:_:)``: a pause may be over, or the owner may have moved submissions.
        case wake
    }

    private enum Connection: Equatable {
        case none
        /// `since` is `nil` during the pause before the attempt.
        case dialling(since: MonotonicTime?)
        case open
    }

    /// How long a node that owes an answer may be silent before it gets PING.
    private static let pingAfter = Duration.seconds(20)
    /// How long such a node may be silent before the connection closes.
    private static let maximumSilence = Duration.seconds(40)
    /// The longest time for which an idle connection stays open. It closes after three quarters of the node's idle
    /// timeout if that is earlier.
    private static let maximumIdleTime = Duration.seconds(60)
    private static let pingLength = 8

    /// What the owner knows of the node.
    var node = NodeState()
    /// The submissions at this node.
    var session: SenderSession
    /// Why the last attempt failed or the last connection ended.
    private(set) var failure: NodeLink.Failure?
    /// When the current connection began; without one, when the last one did.
    private(set) var connectedAt: MonotonicTime
    private(set) var isClosed = false

    private let agent: String
    /// How long an attempt to connect may take before the owner prefers other nodes.
    private let slowAfter: Duration
    /// Whether the link connects without a proxy.
    private let isDirect: Bool
    private var connection = Connection.none
    /// The node's GOAWAY on the current connection.
    private var leaving: GoAway?
    /// When the last whole frame arrived, or the node began to owe an answer.
    private var lastFrame: MonotonicTime
    /// Whether the node has got PING since the last frame.
    private var hasPinged = false
    /// Since when the connection has been idle; `nil` if it is not.
    private var idleSince: MonotonicTime?

    /// The state without a connection.
    /// - Parameter agent: the agent in HELLO, at most 64 bytes of UTF-8.
    init(session: SenderSession, destination: Destination, agent: String, now: MonotonicTime) {
        self.session = session
        self.agent = agent
        slowAfter = destination.timeout * NodeState.slowPart
        isDirect = destination.proxy == nil
        (connectedAt, lastFrame) = (now, now)
    }

    var isConnected: Bool { connection == .open }

    /// Whether the link neither is connected nor connects.
    var isUnused: Bool { connection == .none }

    /// Closes the connection for good; the session keeps its submissions.
    mutating func close(_ actions: inout [Action]) {
        isClosed = true
        disconnect(&actions)
    }

    /// Closes the connection if nothing is pending, although the node may owe answers to abandoned submissions.
    mutating func closeIfEmpty(_ actions: inout [Action]) {
        guard isConnected, session.isEmpty else { return }
        disconnect(&actions)
        node.state = .unused
    }

    // MARK: Connecting

    /// Makes a refusing node usable once its pause is over. Otherwise begins to connect, after the rest of the node's
    /// pause, if submissions need the node.
    /// - Parameter isNeeded: whether submissions wait that may go to this node.
    mutating func wake(isNeeded: Bool, now: MonotonicTime, _ actions: inout [Action]) {
        if node.revive(now: now) {
            // The owner may have submissions for the node, which is usable again.
            return actions += [.report(.usable), .wake]
        }
        guard isUnused, !isClosed else { return }
        if node.state == .unused, !session.isEmpty {
            dial(after: .zero, &actions)
        } else if node.state == .down, isNeeded {
            dial(after: max(.zero, node.retryAt - now), &actions)
        }
    }

    private mutating func dial(after pause: Duration, _ actions: inout [Action]) {
        if node.state == .unused { node.state = .connecting }
        connection = .dialling(since: nil)
        actions.append(.dial(after: pause))
    }

    /// The pause before an attempt to connect is over.
    /// - Parameter isNeeded: whether submissions still wait that may go to this node.
    /// - Returns: whether to connect.
    mutating func beginsDialling(isNeeded: Bool, now: MonotonicTime, _ actions: inout [Action]) -> Bool {
        guard connection == .dialling(since: nil), !isClosed else { return false }
        guard isNeeded else {
            connection = .none
            if node.state == .connecting { node.state = .unused }
            return false
        }
        connection = .dialling(since: now)
        actions.append(.report(.connecting))
        return true
    }

    mutating func couldNotConnect(
        _ error: StreamError, now: MonotonicTime, random: () -> Double, _ actions: inout [Action]
    ) {
        guard !isClosed else { return }
        connection = .none
        node.isSlow = false
        fail(NodeLink.Failure(error, isDirect: isDirect), now: now, random: random, &actions)
    }

    mutating func connected(now: MonotonicTime, _ actions: inout [Action]) {
        connection = .open
        node.isSlow = false
        node.state = .connected
        (leaving, failure, idleSince, hasPinged) = (nil, nil, nil, false)
        (connectedAt, lastFrame) = (now, now)
        actions.append(.send(session.connected(agent: agent)))
        actions.append(.report(.connected))
    }

    /// Marks the node as down. Its submissions move to other nodes, and it is tried again later.
    private mutating func fail(
        _ failure: NodeLink.Failure, atLeast minimum: Duration = .zero, now: MonotonicTime, random: () -> Double,
        _ actions: inout [Action]
    ) {
        self.failure = failure
        node.state = .down
        _ = pause(atLeast: minimum, now: now, random: random, &actions)
        actions.append(.report(.unusable(requests: session.requests, because: failure)))
        actions.append(.wake)
    }

    private mutating func pause(
        atLeast minimum: Duration = .zero, now: MonotonicTime, random: () -> Double, _ actions: inout [Action]
    ) -> Duration {
        let pause = node.failed(
            now: now, random: random(), atLeast: minimum, byMistake: failure?.isLikelyMistake ?? false)
        actions.append(.report(.retrying(reason: failure?.text ?? "", after: pause)))
        return pause
    }

    // MARK: Connected

    /// Handles received bytes. Call ``flush(now:random:_:)`` afterwards: it sends what they made room for. After a
    /// frame that ends the connection, only the results in the same bytes still count.
    mutating func received(
        _ bytes: RawSpan, now: MonotonicTime, random: () -> Double, _ actions: inout [Action]
    ) {
        guard isConnected else { return }
        var events: [SenderSession.Action] = []
        var fault: ProtocolError?
        do throws(ProtocolError) {
            if try session.received(bytes, &events) {
                lastFrame = now
                hasPinged = false
            }
        } catch {
            fault = error
        }
        apply(events, now: now, random: random, &actions)
        if let fault, isConnected { refuse(.protocolError("\(fault)"), retryAfter: 0, now: now, &actions) }
    }

    /// Sends what is due in the session, and connects again if abandoned submissions occupy the connection.
    mutating func flush(now: MonotonicTime, random: () -> Double, _ actions: inout [Action]) {
        apply(session.flush(now: now), now: now, random: random, &actions)
        guard isConnected, session.isBlockedByAbandoned else { return }
        disconnect(&actions)
        reconnect("abandoned submissions occupy all slots", now: now, random: random, &actions)
    }

    /// The time for a request's proof of work is over.
    mutating func searchEnded(
        _ request: UInt32, now: MonotonicTime, random: () -> Double, _ actions: inout [Action]
    ) {
        apply(session.searchEnded(request), now: now, random: random, &actions)
    }

    private mutating func apply(
        _ events: [SenderSession.Action], now: MonotonicTime, random: () -> Double, _ actions: inout [Action]
    ) {
        for event in events {
            switch event {
            case .welcomed(let welcome): actions.append(.report(.welcomed(welcome)))
            case .result(let result):
                node.answered()
                actions.append(.report(.answered(result)))
            case .goAway where !isConnected, .siteRefused where !isConnected: break
            case .goAway(let goAway, isFatal: true):
                refuse(.refused(goAway), retryAfter: goAway.retryAfter, now: now, &actions)
            case .goAway(let goAway, isFatal: false): leave(goAway, now: now, random: random, &actions)
            case .siteRefused: refuse(.siteRefused, retryAfter: 0, now: now, &actions)
            case .send(let bytes): actions.append(.send(bytes))
            case .pong(let bytes): actions.append(.pong(bytes))
            case .solve(let request, let digest, let puzzle, let deadline):
                actions.append(.report(.solving(effort: puzzle.effort)))
                actions.append(.solve(request: request, digest: digest, puzzle: puzzle, until: deadline))
            case .stopSolving(let request): actions.append(.stopSolving(request))
            }
        }
    }

    // MARK: Ends of connections

    /// Handles the end of a connection. After a GOAWAY other than idle, before WELCOME, or after three failures since
    /// the last RESULT, the node is down and its submissions move. Otherwise the link connects again, because the node
    /// may already have the submissions in flight.
    mutating func ended(
        _ reason: String, now: MonotonicTime, random: () -> Double, _ actions: inout [Action]
    ) {
        guard isConnected else { return }
        let isProved = session.welcome != nil && !node.isUnreliable
        disconnect(&actions)
        if let leaving, leaving.code != .idle {
            fail(
                .closing(leaving), atLeast: .milliseconds(Int64(clamping: leaving.retryAfter)), now: now,
                random: random, &actions)
        } else if isProved {
            reconnect(reason, now: now, random: random, &actions)
        } else {
            fail(.unreachable(reason), now: now, random: random, &actions)
        }
    }

    private mutating func leave(
        _ goAway: GoAway, now: MonotonicTime, random: () -> Double, _ actions: inout [Action]
    ) {
        leaving = goAway
        if goAway.code == .idle {
            // The node works: submissions it has not accepted wait for the next connection.
            node.state = .connecting
        } else {
            node.state = .down
            failure = .closing(goAway)
            actions.append(.report(.unusable(requests: session.waiting, because: .closing(goAway))))
        }
        if !goAway.code.answersInFlight || !session.isInFlight { ended("", now: now, random: random, &actions) }
    }

    private mutating func reconnect(
        _ reason: String, now: MonotonicTime, random: () -> Double, _ actions: inout [Action]
    ) {
        failure = .unreachable(reason)
        node.state = .unused
        guard !session.isEmpty, !isClosed else { return }
        let pause = pause(now: now, random: random, &actions)
        dial(after: pause, &actions)
    }

    private mutating func disconnect(_ actions: inout [Action]) {
        connection = .none
        session.disconnected()
        actions.append(.disconnect)
    }

    /// Closes the connection and marks the node as refusing, until its pause is over.
    private mutating func refuse(
        _ failure: NodeLink.Failure, retryAfter: UInt32, now: MonotonicTime, _ actions: inout [Action]
    ) {
        disconnect(&actions)
        self.failure = failure
        node.refused(now: now, atLeast: .milliseconds(Int64(clamping: retryAfter)))
        actions.append(.report(.unusable(requests: session.requests, because: failure)))
    }

    // MARK: Time

    /// Watches for silence, idleness and slow attempts to connect. Call it at least once a second while the link is in
    /// use.
    /// - Parameter opaque: the random bytes of a PING.
    mutating func watch(
        now: MonotonicTime, random: () -> Double, opaque: (Int) -> [UInt8], _ actions: inout [Action]
    ) {
        guard isConnected else {
            if case .dialling(let since?) = connection, now - since >= slowAfter {
                node.isSlow = true
                actions.append(.report(.slow(requests: session.requests)))
            }
            return actions.append(.wake)
        }
        if leaving != nil, !session.isInFlight {
            ended("", now: now, random: random, &actions)
        } else if session.isOwedAnswer || leaving != nil {
            idleSince = nil
            if now - lastFrame >= Self.maximumSilence {
                ended("the node stopped responding", now: now, random: random, &actions)
            } else if now - lastFrame >= Self.pingAfter, !hasPinged, session.welcome != nil {
                hasPinged = true
                var ping: [UInt8] = []
                ping.append(ping: opaque(Self.pingLength)[...])
                actions.append(.send(ping))
            }
        } else if session.isEmpty {
            let since = idleSince ?? now
            idleSince = since
            lastFrame = now
            let limit = Duration.milliseconds(Int64(clamping: session.welcome?.idleTimeout ?? 0) * 750)
            if now - since >= min(Self.maximumIdleTime, limit) {
                disconnect(&actions)
                node.state = .unused
            }
        } else {
            idleSince = nil
            // A node that owes nothing may be silent.
            lastFrame = now
        }
    }
}
