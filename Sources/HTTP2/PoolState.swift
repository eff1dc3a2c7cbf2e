// SPDX-License-Identifier: Apache-2.0

import DequeModule
import EventLoop
import Time

/// Which connection a request goes to, and when there are more or fewer of them: events and time in, actions out. No
/// I/O and no clock. Connections and waiting requests are known by number.
struct PoolState {
    /// Bounds and manners.
    struct Rules: Sendable {
        /// Connections that are opened as soon as there is work.
        var minimum = 1
        /// Connections that are opened when streams run out.
        var maximum = 1
        /// Whether a new connection carries one request until that has been answered (Apple, "Establishing a
        /// token-based connection to APNs").
        var provesFirst = false
        /// Between failed dials.
        var backoff = Backoff(base: .milliseconds(250), cap: .seconds(30))
    }

    /// What is to be done.
    enum Action: Equatable {
        /// Open a connection and call it so.
        case dial(Int)
        /// This waiting request goes to this connection, where it has been given a place.
        case run(request: Int, on: Int)
        /// This waiting request cannot be served; nil: this side has ended, and another may take it.
        case fail(request: Int, because: String?)
        /// Call ``timeReached(_:)`` then.
        case wake(at: MonotonicTime)
        /// End this connection once what is under way on it is answered.
        case drain(Int)
    }

    /// Where a new request goes.
    enum Place: Equatable {
        case connection(Int)
        /// It waits; an action will name it.
        case waiting
        /// It cannot be served now.
        case none(because: String?)
    }

    private struct Connection {
        enum Phase { case dialling, open, draining }
        let id: Int
        var phase = Phase.dialling
        var streams = 0
        /// The server's MAX_CONCURRENT_STREAMS; nil until it has said so.
        var limit: Int?
        var isProven = false
        /// Since when requests wait in vain for a place here: the server allows no stream, and none is open.
        var barrenSince: MonotonicTime?

        var isBarren: Bool { phase == .open && limit == 0 && streams == 0 }

        /// Whether it has been barren for so long that another connection takes its place.
        func isUseless(_ now: MonotonicTime) -> Bool {
            isBarren && barrenSince.map { now - $0 >= PoolState.longestBarren } ?? false
        }
    }

    /// How long requests wait for a connection that allows no streams before another one is dialled. That one takes over
    /// when it serves.
    static let longestBarren = Duration.seconds(10)

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

    /// Connections that are open, or nearly.
    var openCount: Int { connections.count { $0.phase == .open } }
    /// Requests that wait for a place.
    var waitingCount: Int { waiting.count }
    /// Whether nothing is left to be done here: no connection, no request.
    var isEmpty: Bool { connections.isEmpty && waiting.isEmpty }

    // MARK: Requests

    /// A request comes; where it has to wait, it is known by `request`.
    mutating func place(request: Int, now: MonotonicTime, _ actions: inout [Action]) -> Place {
        if isRetired { return .none(because: nil) }
        openMinimum(now, &actions)
        if waiting.isEmpty, let index = indexWithPlace() {
            connections[index].streams += 1
            return .connection(connections[index].id)
        }
        if !canServeSoon(now) { return .none(because: lastFailure) }
        waiting.append(request)
        grow(now, &actions)
        return .waiting
    }

    /// A waiting request's time is over.
    mutating func giveUp(request: Int) {
        if let index = waiting.firstIndex(of: request) { waiting.remove(at: index) }
    }

    /// A request on a connection has come to its end.
    /// - Parameter isProof: whether the answer shows that the server takes this connection's credential.
    mutating func finished(on id: Int, isProof: Bool, now: MonotonicTime, _ actions: inout [Action]) {
        guard let index = connections.firstIndex(where: { $0.id == id }) else { return }
        connections[index].streams -= 1
        if isProof, !connections[index].isProven {
            connections[index].isProven = true
            backoff.reset()
        }
        if isProof { leaveUseless(now: now, &actions) }
        if !waiting.isEmpty { serveWaiting(now, &actions) }
    }

    // MARK: Connections

    /// The dial has led to a connection.
    mutating func opened(_ id: Int, now: MonotonicTime, _ actions: inout [Action]) {
        guard let index = connections.firstIndex(where: { $0.id == id }) else { return }
        connections[index].phase = isRetired ? .draining : .open
        if isRetired { return actions.append(.drain(id)) }
        serveWaiting(now, &actions)
    }

    /// The server says how many streams it takes at a time.
    mutating func allows(_ limit: Int, on id: Int, now: MonotonicTime, _ actions: inout [Action]) {
        guard let index = connections.firstIndex(where: { $0.id == id }) else { return }
        connections[index].limit = limit
        if limit > 0 { connections[index].barrenSince = nil }
        serveWaiting(now, &actions)
    }

    /// Nothing new can be sent on a connection: the server goes away, or this side has lost trust in it.
    mutating func leave(_ id: Int, now: MonotonicTime, _ actions: inout [Action]) {
        guard let index = connections.firstIndex(where: { $0.id == id }), connections[index].phase == .open else {
            return
        }
        let wasBusy = connections[index].streams > 0
        connections[index].phase = .draining
        actions.append(.drain(id))
        // Another takes over while this one finishes, before a request has to wait for it.
        if wasBusy { openMinimum(now, &actions) }
        serveWaiting(now, &actions)
    }

    /// Nothing new goes to any connection that is open now.
    mutating func leaveAll(now: MonotonicTime, _ actions: inout [Action]) {
        for connection in connections where connection.phase == .open { leave(connection.id, now: now, &actions) }
    }

    /// A dial has failed, or a connection has ended.
    /// - Parameter random: from 0 up to 1.
    mutating func ended(
        _ id: Int, because reason: String, now: MonotonicTime, random: Double, _ actions: inout [Action]
    ) {
        guard let index = connections.firstIndex(where: { $0.id == id }) else { return }
        let connection = connections.remove(at: index)
        // E.g. a client certificate that the server refuses shows only after the dial, and some servers say GOAWAY at
        // once: dialling again without a pause would not help. One that has worked is replaced without delay.
        if connection.isProven {
            nextDial = nil
        } else if !isRetired {
            lastFailure = reason
            nextDial = now + backoff.next(random: random)
        }
        serveWaiting(now, &actions)
    }

    /// No more requests: connections end once what is under way is answered.
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

    /// The time of ``Action/wake(at:)`` has come.
    mutating func timeReached(_ now: MonotonicTime, _ actions: inout [Action]) { serveWaiting(now, &actions) }

    // MARK: Inside

    private func room(_ connection: Connection) -> Int {
        guard connection.phase == .open else { return 0 }
        return (isSettled(connection) ? connection.limit! : min(1, connection.limit ?? 1)) - connection.streams
    }

    /// Whether it is known what the connection can carry. Until then it carries one request.
    private func isSettled(_ connection: Connection) -> Bool {
        connection.limit != nil && (connection.isProven || !rules.provesFirst)
    }

    private func indexWithPlace() -> Int? {
        if connections.count == 1 { return room(connections[0]) > 0 ? 0 : nil }
        // The emptiest of several, so that none is held up by another's head of line.
        return connections.indices.filter { room(connections[$0]) > 0 }
            .min { connections[$0].streams < connections[$1].streams }
    }

    /// Whether a request that waits has anything to wait for.
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

    /// One more connection where streams have run out. While one is on its way, or not yet settled, it is waited for: a
    /// burst at the start would open them all. Useless ones do not count.
    private mutating func grow(_ now: MonotonicTime, _ actions: inout [Action]) {
        for index in connections.indices where connections[index].isBarren && connections[index].barrenSince == nil {
            connections[index].barrenSince = now
        }
        let useful = connections.filter { $0.phase != .draining && !$0.isUseless(now) }
        var wake = useful.filter(\.isBarren).compactMap(\.barrenSince).min().map { $0 + Self.longestBarren }
        if useful.count < rules.maximum, useful.allSatisfy({ $0.phase == .open && isSettled($0) }) {
            // One of them is kept, in case that the server changes its mind.
            leaveUseless(sparing: 1, now: now, &actions)
            if !dial(now, &actions) { wake = [wake, nextDial].compactMap(\.self).min() }
        }
        if let wake { actions.append(.wake(at: wake)) }
    }

    private mutating func leaveUseless(sparing spared: Int = 0, now: MonotonicTime, _ actions: inout [Action]) {
        for index in connections.indices.filter({ connections[$0].isUseless(now) }).dropLast(spared) {
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
