// SPDX-License-Identifier: Apache-2.0

import DequeModule
import EventLoop
import Time

/// Decides which connection of an ``HTTPClient`` carries a request, and when to open and close connections: takes events
/// and the time, returns actions. No I/O and no clock. Connections and requests are identified by number.
struct HTTPClientState {
    /// What to do.
    enum Action: Equatable {
        /// Open a connection and identify it by this number.
        case dial(Int)
        /// Send this request on this connection.
        case send(request: Int, on: Int)
        /// This request has no response.
        case fail(request: Int, HTTPClientFailure)
        /// Close this connection.
        case close(Int)
        /// Reset this connection and discard its output: the server has not answered in time.
        case abort(Int)
    }

    private struct Waiting {
        let request: Int
        let deadline: MonotonicTime
    }

    private struct Connection {
        /// The request without a response, with its deadline.
        var current: Waiting?
        var idleSince: MonotonicTime
        var hasCarriedRequest = false
    }

    /// The largest number of connections.
    static let maximumConnections = 6
    /// How long a connection stays open without a request. Servers close idle connections too, many after a minute.
    static let idleTime = Duration.seconds(20)

    private var waiting: Deque<Waiting> = []
    private var dialling: Set<Int> = []
    private var connections: [Int: Connection] = [:]
    private var lastConnection = 0
    private var isClosed = false

    /// Whether there is neither a connection nor a request.
    var isEmpty: Bool { connections.isEmpty && dialling.isEmpty && waiting.isEmpty }

    // MARK: Requests

    /// A new request.
    mutating func start(_ request: Int, deadline: MonotonicTime, _ actions: inout [Action]) {
        guard !isClosed else { return actions.append(.fail(request: request, .closed)) }
        waiting.append(Waiting(request: request, deadline: deadline))
        serve(&actions)
    }

    /// The response to the request on a connection is complete.
    /// - Parameter keepsAlive: whether the connection can carry another request.
    mutating func answered(on number: Int, keepsAlive: Bool, now: MonotonicTime, _ actions: inout [Action]) {
        guard connections[number] != nil else { return }
        connections[number]?.current = nil
        connections[number]?.idleSince = now
        if keepsAlive { serve(&actions) } else { forget(number, .close(number), &actions) }
    }

    /// The server has sent something other than the awaited response: the connection closes.
    /// - Parameter failure: the result of its request, if it has one.
    mutating func broken(_ number: Int, _ failure: HTTPClientFailure, _ actions: inout [Action]) {
        fail(number, failure, &actions)
        forget(number, .close(number), &actions)
    }

    /// Gives requests to idle connections, and opens connections for the rest.
    private mutating func serve(_ actions: inout [Action]) {
        for number in connections.keys where connections[number]?.current == nil {
            guard let next = waiting.popFirst() else { return }
            connections[number]?.current = next
            connections[number]?.hasCarriedRequest = true
            actions.append(.send(request: next.request, on: number))
        }
        while dialling.count < waiting.count, connections.count + dialling.count < Self.maximumConnections {
            lastConnection += 1
            dialling.insert(lastConnection)
            actions.append(.dial(lastConnection))
        }
    }

    // MARK: Connections

    /// A connection is open.
    mutating func opened(_ number: Int, now: MonotonicTime, _ actions: inout [Action]) {
        guard dialling.remove(number) != nil else { return actions.append(.close(number)) }
        connections[number] = Connection(idleSince: now)
        serve(&actions)
    }

    /// A connection could not be opened.
    mutating func couldNotOpen(_ number: Int, _ error: StreamError, _ actions: inout [Action]) {
        guard dialling.remove(number) != nil else { return }
        couldNotConnect(error, &actions)
    }

    /// A connection has ended.
    mutating func ended(_ number: Int, because reason: StreamError, _ actions: inout [Action]) {
        fail(number, .lost(reason.description), &actions)
        forget(number, nil, &actions)
    }

    private mutating func fail(_ number: Int, _ failure: HTTPClientFailure, _ actions: inout [Action]) {
        guard let current = connections[number]?.current else { return }
        connections[number]?.current = nil
        actions.append(.fail(request: current.request, failure))
    }

    /// Forgets a connection, and closes it with `action`; `nil` if it has ended already.
    private mutating func forget(_ number: Int, _ action: Action?, _ actions: inout [Action]) {
        guard let connection = connections.removeValue(forKey: number) else { return }
        if let action { actions.append(action) }
        if connection.hasCarriedRequest { serve(&actions) } else { couldNotConnect(.closed, &actions) }
    }

    /// Fails all waiting requests if no connection is open or opening: the next dial would probably fail, too.
    private mutating func couldNotConnect(_ error: StreamError, _ actions: inout [Action]) {
        guard connections.isEmpty, dialling.isEmpty else { return }
        while let request = waiting.popFirst()?.request {
            actions.append(.fail(request: request, .unreachable(error)))
        }
    }

    // MARK: Time

    /// Fails requests whose deadline has passed, and closes connections that have been idle for ``idleTime``.
    mutating func timePassed(_ now: MonotonicTime, _ actions: inout [Action]) {
        for one in waiting where one.deadline <= now { actions.append(.fail(request: one.request, .noConnection)) }
        waiting.removeAll { $0.deadline <= now }
        for number in Array(connections.keys) {
            guard let connection = connections[number] else { continue }
            if let current = connection.current {
                guard current.deadline <= now else { continue }
                fail(number, .timedOut, &actions)
                forget(number, .abort(number), &actions)
            } else if now - connection.idleSince >= Self.idleTime {
                forget(number, .close(number), &actions)
            }
        }
    }

    /// Closes all connections, and fails all requests; later requests fail, too.
    mutating func close(_ actions: inout [Action]) {
        isClosed = true
        dialling = []
        for number in connections.keys {
            fail(number, .lost("closed locally"), &actions)
            actions.append(.close(number))
        }
        connections = [:]
        while let request = waiting.popFirst()?.request { actions.append(.fail(request: request, .closed)) }
    }
}
