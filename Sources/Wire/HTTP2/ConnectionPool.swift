// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Time

/// Sends requests to one server over a pool of connections, as ``PoolState`` decides. Attempts each request once and
/// reports its response or failure. A pool with connections keeps itself alive: close or retire it.
package final class ConnectionPool: @unchecked Sendable {
    // Unchecked: used on the loop's thread only, which `start` and `update` check; ``send(_:timeout:)`` hops to it. Not an
    // actor, because the checks of `assumeIsolated` cost more than placing a request.

    /// A request that waits for a connection.
    private struct Waiting {
        let request: Request
        let deadline: MonotonicTime
        let number: UInt64
        let receiver: any ResponseReceiver
    }

    /// The server; its TLS settings select HTTP/2.
    package let destination: Destination
    /// The loop of its connections.
    package let loop: EventLoop

    private var pool: PoolState
    private var connections: [Int: ClientConnection] = [:]
    private var dials: Set<Int> = []
    private var waiting: [Int: Waiting] = [:]
    private var nextRequest = 1
    private var sweep: Timer?
    private var wake: Timer?

    /// How often the deadlines of waiting requests are checked.
    private static let deadlineResolution = Duration.milliseconds(100)

    /// A pool without connections; the first request opens them.
    /// - Parameters:
    ///   - destination: the server; its TLS settings select HTTP/2.
    ///   - connections: the number of connections opened as soon as there is work, and the maximum.
    ///   - startsWithOneRequest: whether a new connection carries only one request until that is answered.
    package init(
        _ destination: Destination, connections: ClosedRange<Int> = 1...1, startsWithOneRequest: Bool = false,
        on loop: EventLoop
    ) {
        self.destination = destination
        self.loop = loop
        pool = PoolState(
            rules: PoolState.Rules(
                minimum: connections.lowerBound, maximum: connections.upperBound,
                startsWithOneRequest: startsWithOneRequest))
    }

    /// Sends a request. Must be called on the loop.
    /// - Parameters:
    ///   - timeout: for the whole exchange, including the wait for a stream.
    ///   - number: identifies the request to the receiver.
    ///   - receiver: receives the result within the timeout, possibly before this returns.
    package func start(
        _ request: Request, timeout: Duration, number: UInt64, for receiver: any ResponseReceiver
    ) {
        loop.preconditionOnLoop()
        let now = loop.now
        var actions: [PoolState.Action] = []
        let place = pool.place(request: nextRequest, now: now, &actions)
        switch place {
        case .connection(let free):
            perform(actions)
            send(request, at: now, deadline: now + timeout, number, receiver, on: free)
        case .unavailable(let reason):
            perform(actions)
            receiver.received(.failure(Self.refusal(reason)), for: number, on: nil)
        case .waiting:
            waiting[nextRequest] = Waiting(
                request: request, deadline: now + timeout, number: number, receiver: receiver)
            nextRequest += 1
            perform(actions)
            armSweep()
        }
    }

    private func send(
        _ request: Request, at now: MonotonicTime, deadline: MonotonicTime, _ number: UInt64,
        _ receiver: any ResponseReceiver, on connection: Int
    ) {
        if let open = connections[connection] {
            open.send(request, at: now, deadline: deadline, number: number, for: receiver)
        } else {
            settle(connection, isProof: false)
            receiver.received(
                .failure(.notProcessed(.connectionLost("closed locally"))), for: number, on: connection)
        }
    }

    /// Passes on the result of a request. Called by its connection, on the loop.
    func completed(
        _ result: Result<Response, RequestFailure>, _ number: UInt64, for receiver: any ResponseReceiver,
        on connection: ClientConnection
    ) {
        let connection = connection.number
        switch result {
        case .success(let response): settle(connection, isProof: response.status != 403)
        case .failure(let failure):
            settle(connection, isProof: false)
            // The connection may be the cause: send the next requests elsewhere.
            if case .outcomeUnknown(.timedOut) = failure { drain(connection) }
        }
        receiver.received(result, for: number, on: connection)
    }

    /// Sends a request and waits for the response. Callable from any thread.
    /// - Parameter timeout: for the whole exchange, including the wait for a stream.
    /// - Throws: ``RequestFailure``.
    package func send(_ request: Request, timeout: Duration) async throws(RequestFailure) -> Response {
        try await withUnsafeContinuation { continuation in
            Task(executorPreference: loop) {
                self.start(request, timeout: timeout, number: 0, for: ContinuationReceiver(continuation))
            }
        }.get()
    }

    private static func refusal(_ reason: String?) -> RequestFailure {
        .notProcessed(reason.map { .unreachable($0) } ?? .goAway)
    }

    private func settle(_ number: Int, isProof: Bool) {
        update { $0.finished(on: number, isCredentialAccepted: isProof, now: loop.now, &$1) }
    }

    private func drain(_ connection: Int) { update { $0.drain(connection, now: loop.now, &$1) } }

    /// Applies the effect of a response to the connection that carried it.
    package func apply(_ effect: ConnectionEffect, to connection: Int) {
        switch effect {
        case .keep: break
        case .drain: drain(connection)
        case .drainAll: update { $0.drainAll(now: loop.now, &$1) }
        }
    }

    /// Accepts no more requests; connections close once their requests in flight are answered.
    package func retire() { update { $0.retire(&$1) } }

    /// Closes all connections; requests without a response fail.
    package func close() {
        update { $0.retire(&$1) }
        dials = []
        for connection in connections.values { connection.close() }
    }

    // MARK: Pool actions

    /// Applies an event to the pool and performs the resulting actions.
    private func update(_ event: (inout PoolState, inout [PoolState.Action]) -> Void) {
        loop.preconditionOnLoop()
        var actions: [PoolState.Action] = []
        event(&pool, &actions)
        perform(actions)
    }

    private func perform(_ actions: [PoolState.Action]) {
        for action in actions {
            switch action {
            case .dial(let number): dial(number)
            case .run(let request, let connection):
                guard let waiter = waiting.removeValue(forKey: request) else { continue }
                send(
                    waiter.request, at: loop.now, deadline: waiter.deadline, waiter.number, waiter.receiver,
                    on: connection)
            case .fail(let request, let reason):
                guard let waiter = waiting.removeValue(forKey: request) else { continue }
                waiter.receiver.received(.failure(Self.refusal(reason)), for: waiter.number, on: nil)
            case .wake(let time): startWake(at: time)
            case .drain(let number): connections[number]?.drain()
            }
        }
    }

    private func dial(_ number: Int) {
        loop.keep(self)
        dials.insert(number)
        loop.dial(destination) { [self] in dialled(number, $0) }
    }

    private func dialled(_ number: Int, _ result: Result<ByteStream, StreamError>) {
        let isWanted = dials.remove(number) != nil
        switch result {
        case .success(let stream) where !isWanted:
            stream.close()
            ended(number, because: "closed locally")
        case .success(let stream) where stream.endReason != nil:
            ended(number, because: stream.endReason?.description ?? "")
        case .success(let stream):
            let connection = ClientConnection(stream, number: number, owner: self)
            connections[number] = connection
            update { $0.opened(number, now: loop.now, &$1) }
            connection.start()
        case .failure(let error): ended(number, because: "\(error)")
        }
    }

    private func ended(_ number: Int, because reason: String) {
        let text = "\(destination.endpoint): \(reason)"
        update { $0.ended(number, because: text, now: loop.now, random: SecureRandom.fraction(), &$1) }
        if pool.isEmpty {
            sweep = nil
            wake = nil
            loop.letGo(of: self)
        }
    }

    // MARK: Time

    private func armSweep() {
        guard sweep == nil, !waiting.isEmpty else { return }
        sweep = Timer(on: loop, after: Self.deadlineResolution) { [unowned self] in endOverdue() }
    }

    private func endOverdue() {
        let now = loop.now
        for (request, waiter) in waiting where waiter.deadline <= now {
            guard waiting.removeValue(forKey: request) != nil else { continue }
            pool.expire(request: request)
            waiter.receiver.received(.failure(.notProcessed(.timedOut)), for: waiter.number, on: nil)
        }
        sweep = nil
        armSweep()
    }

    private func startWake(at time: MonotonicTime) {
        let timer =
            wake
            ?? Timer(on: loop) { [unowned self] in update { $0.timeReached(loop.now, &$1) } }
        timer.start(after: time - loop.now)
        wake = timer
    }

    // MARK: Events of connections

    /// Handles an event of a connection. Called on the loop.
    func handle(_ event: ClientConnection.Event, of connection: ClientConnection) {
        let number = connection.number
        // The connection is the caller: keep it alive until the call returns.
        withExtendedLifetime(connection) { handle(event, of: number) }
    }

    private func handle(_ event: ClientConnection.Event, of number: Int) {
        guard connections[number] != nil else { return }
        switch event {
        case .allows(let streams): update { $0.allows(streams, on: number, now: loop.now, &$1) }
        case .goingAway: drain(number)
        case .ended(let reason):
            connections[number] = nil
            ended(number, because: reason)
        }
    }
}

/// Resumes a task with the result of one request.
private final class ContinuationReceiver: ResponseReceiver {
    private let continuation: UnsafeContinuation<Result<Response, RequestFailure>, Never>

    init(_ continuation: UnsafeContinuation<Result<Response, RequestFailure>, Never>) {
        self.continuation = continuation
    }

    func received(_ result: Result<Response, RequestFailure>, for number: UInt64, on connection: Int?) {
        continuation.resume(returning: result)
    }
}
