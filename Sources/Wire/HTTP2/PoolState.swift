// SPDX-License-Identifier: Apache-2.0

import DequeModule
import EventLoop
import Time

/// Decides which connection serves a request, and when to open and drain connections: takes events and the time,
/// returns actions. No I/O and no clock. Connections and waiting requests are identified by number.
struct PoolState {
    /// The limits and policy of a pool.
    struct Rules: Sendable {
        /// Number of connections opened as soon as there is work.
        var minimum = 1
        /// Maximum number of connections; the pool grows to it when streams run out.
        var maximum = 1
        /// Whether a new connection carries only one request until that is answered (Apple, "Establishing a token-based
        /// connection to APNs").
        var startsWithOneRequest = false
        /// The delay of the next dial after a dial has failed, or a connection has ended unproven.
        var backoff = Backoff(base: .milliseconds(250), cap: .seconds(30))
    }

    /// What to do.
    enum Action: Equatable {
        /// Open a connection and identify it by this number.
        case dial(Int)
        /// Send this waiting request on this connection, which has a stream reserved for it.
        case run(request: Int, on: Int)
        /// Fail this waiting request. `because` is `nil` if the pool was retired; another pool may then serve the
        /// request.
        case fail(request: Int, because: String?)
        /// Call ``timeReached(_:_:)`` at this time.
        case wake(at: MonotonicTime)
        /// Close this connection once its requests in flight are answered.
        case drain(Int)
    }

    /// Where a new request goes.
    enum Placement: Equatable {
        case connection(Int)
        /// The request waits; a later action names it.
        case waiting
        /// The request cannot be served now; `because` is `nil` if the pool was retired.
        case unavailable(because: String?)
    }

    private struct Connection {
        enum Phase { case dialling, open, draining }
        let id: Int
        var phase = Phase.dialling
        var streams = 0
        /// The server's MAX_CONCURRENT_STREAMS; `nil` until it has announced one.
        var limit: Int?
        var isProven = false
        /// Since when requests have waited for this connection although the server allows no stream and none is open.
        var blockedSince: MonotonicTime?

        var isBlocked: Bool { phase == .open && limit == 0 && streams == 0 }

        /// Whether it has been blocked for ``PoolState/maximumBlockedTime``: the pool then replaces it.
        func isBlockedTooLong(_ now: MonotonicTime) -> Bool {
            isBlocked && blockedSince.map { now - $0 >= PoolState.maximumBlockedTime } ?? false
        }
    }

    /// How long requests wait for a connection that allows no streams before another one is dialled. The new one takes
    /// over once it serves requests.
    static let maximumBlockedTime = Duration.seconds(10)

    private let rules: Rules
    private var connections: [Connection] = []
    private var waiting: Deque<Int> = []
    private var nextID = 1
    private var backoff: Backoff
    private var nextDial: MonotonicTime?
    private var lastFailure = ""
    private var isRetired = false

    init(rules: Rules) {
        self.rules = rules
        backoff = rules.backoff
    }

    /// Number of open connections.
    var openCount: Int { connections.count { $0.phase == .open } }
    /// Number of requests that wait for a stream.
    var waitingCount: Int { waiting.count }
    /// Whether there is no connection and no waiting request.
    var isEmpty: Bool { connections.isEmpty && waiting.isEmpty }

    // MARK: Requests

    /// Places a new request; `request` identifies it if it has to wait.
    mutating func place(request: Int, now: MonotonicTime, _ actions: inout [Action]) -> Placement {
        if isRetired { return .unavailable(because: nil) }
        openMinimum(now, &actions)
        if waiting.isEmpty, let index = indexWithPlace() {
            connections[index].streams += 1
            return .connection(connections[index].id)
        }
        if !canServeSoon(now) { return .unavailable(because: lastFailure) }
        waiting.append(request)
        grow(now, &actions)
        return .waiting
    }

    /// Removes a waiting request whose deadline has passed.
    mutating func expire(request: Int) {
        if let index = waiting.firstIndex(of: request) { waiting.remove(at: index) }
    }

    /// A request on a connection has completed or failed.
    /// - Parameter isCredentialAccepted: whether the response shows that the server accepts this connection's
    ///   credential.
    mutating func finished(on id: Int, isCredentialAccepted: Bool, now: MonotonicTime, _ actions: inout [Action]) {
        guard let index = connections.firstIndex(where: { $0.id == id }) else { return }
        connections[index].streams -= 1
        if isCredentialAccepted, !connections[index].isProven {
            connections[index].isProven = true
            backoff.reset()
        }
        if isCredentialAccepted { drainBlocked(now: now, &actions) }
        if !waiting.isEmpty { serveWaiting(now, &actions) }
    }

    // MARK: Connections

    /// The dial has succeeded.
    mutating func opened(_ id: Int, now: MonotonicTime, _ actions: inout [Action]) {
        guard let index = connections.firstIndex(where: { $0.id == id }) else { return }
        connections[index].phase = isRetired ? .draining : .open
        if isRetired { return actions.append(.drain(id)) }
        serveWaiting(now, &actions)
    }

    /// The server has announced how many concurrent streams it allows.
    mutating func allows(_ limit: Int, on id: Int, now: MonotonicTime, _ actions: inout [Action]) {
        guard let index = connections.firstIndex(where: { $0.id == id }) else { return }
        connections[index].limit = limit
        if limit > 0 { connections[index].blockedSince = nil }
        serveWaiting(now, &actions)
    }

    /// Stops placing requests on a connection: the server is going away, or the connection has become suspect.
    mutating func drain(_ id: Int, now: MonotonicTime, _ actions: inout [Action]) {
        guard let index = connections.firstIndex(where: { $0.id == id }), connections[index].phase == .open else {
            return
        }
        let wasBusy = connections[index].streams > 0
        connections[index].phase = .draining
        actions.append(.drain(id))
        // Dial a replacement while this one drains, before a request has to wait for it.
        if wasBusy { openMinimum(now, &actions) }
        serveWaiting(now, &actions)
    }

    /// Stops placing requests on all connections that are open now.
    mutating func drainAll(now: MonotonicTime, _ actions: inout [Action]) {
        for connection in connections where connection.phase == .open { drain(connection.id, now: now, &actions) }
    }

    /// A dial has failed, or a connection has ended.
    /// - Parameter random: jitter of the backoff, from 0 up to 1.
    mutating func ended(
        _ id: Int, because reason: String, now: MonotonicTime, random: Double, _ actions: inout [Action]
    ) {
        guard let index = connections.firstIndex(where: { $0.id == id }) else { return }
        let connection = connections.remove(at: index)
        // A second dial at once would not help: a rejected client certificate, for example, shows only after the dial,
        // and some servers send GOAWAY at once. A proven connection is replaced without delay.
        if connection.isProven {
            nextDial = nil
        } else if !isRetired {
            lastFailure = reason
            nextDial = now + backoff.next(random: random)
        }
        serveWaiting(now, &actions)
    }

    /// Accepts no more requests; connections close once their requests in flight are answered.
    mutating func retire(_ actions: inout [Action]) {
        isRetired = true
        for index in connections.indices where connections[index].phase == .open {
            connections[index].phase = .draining
            actions.append(.drain(connections[index].id))
        }
        while let request = waiting.popFirst() {
            actions.append(.fail(request: request, because: nil))
        }
    }

    /// The time of ``Action/wake(at:)`` has been reached.
    mutating func timeReached(_ now: MonotonicTime, _ actions: inout [Action]) { serveWaiting(now, &actions) }

    // MARK: Implementation

    private func room(_ connection: Connection) -> Int {
        guard connection.phase == .open else { return 0 }
        return (isSettled(connection) ? connection.limit! : min(1, connection.limit ?? 1)) - connection.streams
    }

    /// Whether the connection's capacity is known. Until then, it carries one request.
    private func isSettled(_ connection: Connection) -> Bool {
        connection.limit != nil && (connection.isProven || !rules.startsWithOneRequest)
    }

    private func indexWithPlace() -> Int? {
        if connections.count == 1 { return room(connections[0]) > 0 ? 0 : nil }
        // The least loaded of several, to limit head-of-line blocking.
        return connections.indices.filter { room(connections[$0]) > 0 }
            .min { connections[$0].streams < connections[$1].streams }
    }

    /// Whether a waiting request has a connection or a dial to wait for.
    private func canServeSoon(_ now: MonotonicTime) -> Bool {
        connections.contains { $0.phase != .draining } || nextDial.map { $0 <= now } ?? true
    }

    private mutating func serveWaiting(_ now: MonotonicTime, _ actions: inout [Action]) {
        while !waiting.isEmpty, let index = indexWithPlace(), let request = waiting.popFirst() {
            connections[index].streams += 1
            actions.append(.run(request: request, on: connections[index].id))
        }
        guard !waiting.isEmpty else { return }
        guard canServeSoon(now) else {
            while let request = waiting.popFirst() { actions.append(.fail(request: request, because: lastFailure)) }
            return
        }
        grow(now, &actions)
    }

    private mutating func openMinimum(_ now: MonotonicTime, _ actions: inout [Action]) {
        while connections.count(where: { $0.phase != .draining }) < rules.minimum, dial(now, &actions) {}
    }

    /// Dials one more connection if streams have run out. While a connection is being dialled or is not yet settled,
    /// the pool dials no other one: otherwise a burst at the start would open the maximum. Connections blocked for too
    /// long do not count.
    private mutating func grow(_ now: MonotonicTime, _ actions: inout [Action]) {
        for index in connections.indices where connections[index].isBlocked && connections[index].blockedSince == nil {
            connections[index].blockedSince = now
        }
        let useful = connections.filter { $0.phase != .draining && !$0.isBlockedTooLong(now) }
        var wake = useful.filter(\.isBlocked).compactMap(\.blockedSince).min().map { $0 + Self.maximumBlockedTime }
        if useful.count < rules.maximum, useful.allSatisfy({ $0.phase == .open && isSettled($0) }) {
            // Keep one of them, in case the server raises its limit.
            drainBlocked(sparing: 1, now: now, &actions)
            if !dial(now, &actions) { wake = [wake, nextDial].compactMap(\.self).min() }
        }
        if let wake { actions.append(.wake(at: wake)) }
    }

    private mutating func drainBlocked(sparing spared: Int = 0, now: MonotonicTime, _ actions: inout [Action]) {
        for index in connections.indices.filter({ connections[$0].isBlockedTooLong(now) }).dropLast(spared) {
            connections[index].phase = .draining
            actions.append(.drain(connections[index].id))
        }
    }

    private mutating func dial(_ now: MonotonicTime, _ actions: inout [Action]) -> Bool {
        guard !isRetired, nextDial.map({ $0 <= now }) ?? true else { return false }
        connections.append(Connection(id: nextID))
        actions.append(.dial(nextID))
        nextID += 1
        return true
    }
}
