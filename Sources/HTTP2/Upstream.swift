// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// Sends requests to one server over a pool of connections, as ``PoolState`` decides. Attempts each request once and
/// throws a failure to the caller. An upstream with connections keeps itself alive: close or retire it.
package actor Upstream {
    /// Where the server is, and how to connect to it.
    package struct Target: Sendable {
        /// Host and port; the certificate must be valid for the host.
        package var endpoint: Endpoint
        /// The TLS settings; the application protocol is `h2`.
        package var tls: TLSContext
        /// The proxy to connect through; `nil` for direct connections.
        package var proxy: Proxy?
        /// The timeout for connecting, including the TLS handshake.
        package var dialTimeout: Duration
        /// The number of connections opened as soon as there is work, and the maximum.
        package var connections: ClosedRange<Int>
        /// Whether a new connection carries only one request until that is answered.
        package var startsWithOneRequest: Bool

        /// - Parameters: as the properties of the same names.
        package init(
            endpoint: Endpoint, tls: TLSContext, proxy: Proxy? = nil, dialTimeout: Duration = .seconds(10),
            connections: ClosedRange<Int> = 1...1, startsWithOneRequest: Bool = false
        ) {
            self.endpoint = endpoint
            self.tls = tls
            self.proxy = proxy
            self.dialTimeout = dialTimeout
            self.connections = connections
            self.startsWithOneRequest = startsWithOneRequest
        }
    }

    private struct Waiting {
        let continuation: UnsafeContinuation<Result<Int, RequestFailure>, Never>
        let deadline: MonotonicTime
    }

    /// The server, and how to connect to it.
    package nonisolated let target: Target
    private nonisolated let loop: EventLoop
    /// The loop, as this actor's executor.
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private var pool: PoolState
    private var connections: [Int: ClientConnection] = [:]
    private var numbers: [ObjectIdentifier: Int] = [:]
    private var dials: [Int: Task<Void, Never>] = [:]
    private var waiting: [Int: Waiting] = [:]
    private var nextRequest = 1
    private var sweep: Timer?
    private var wake: Timer?
    /// Keeps self alive while it has connections: resources of the loop must be released on its thread.
    private var selfWhileOpen: Upstream?

    /// How often the deadlines of waiting requests are checked.
    private static let deadlineResolution = Duration.milliseconds(100)

    /// An upstream without connections; the first request opens them.
    package init(_ target: Target, on loop: EventLoop) {
        self.target = target
        self.loop = loop
        pool = PoolState(
            rules: PoolState.Rules(
                minimum: target.connections.lowerBound, maximum: target.connections.upperBound,
                startsWithOneRequest: target.startsWithOneRequest))
    }

    /// Sends a request and waits for the response.
    /// - Parameter timeout: for the whole exchange, including the wait for a stream.
    /// - Throws: ``RequestFailure``.
    package func send(_ request: Request, timeout: Duration) async throws(RequestFailure) -> Response {
        try await exchange(request, timeout: timeout).response
    }

    /// Sends a request and waits for the response.
    /// - Parameter timeout: for the whole exchange, including the wait for a stream.
    /// - Returns: the response, and the number of the connection that carried it.
    /// - Throws: ``RequestFailure``.
    package func exchange(
        _ request: Request, timeout: Duration
    ) async throws(RequestFailure) -> (response: Response, connection: Int) {
        let started = MonotonicTime.now
        let number: Int
        var left = timeout
        var actions: [PoolState.Action] = []
        let place = pool.place(request: nextRequest, now: started, &actions)
        switch place {
        case .connection(let free):
            perform(actions)
            number = free
        case .unavailable(let reason):
            perform(actions)
            throw Self.refusal(reason)
        case .waiting:
            let waiter = nextRequest
            nextRequest += 1
            number = try await withUnsafeContinuation { continuation in
                waiting[waiter] = Waiting(continuation: continuation, deadline: started + timeout)
                perform(actions)
                armSweep()
            }.get()
            left = (started + timeout) - .now
        }
        guard let connection = connections[number] else {
            settle(number, isProof: false)
            throw .notProcessed(.connectionLost("closed locally"))
        }
        let result = await withUnsafeContinuation { connection.send(request, timeout: left, $0) }
        switch result {
        case .success(let response):
            settle(number, isProof: response.status != 403)
            return (response, number)
        case .failure(let failure):
            settle(number, isProof: false)
            // The connection may be the cause: send the next requests elsewhere.
            if case .outcomeUnknown(.timedOut) = failure { apply(.drain, to: number) }
            throw failure
        }
    }

    private static func refusal(_ reason: String?) -> RequestFailure {
        .notProcessed(reason.map { .unreachable($0) } ?? .goAway)
    }

    private func settle(_ number: Int, isProof: Bool) {
        update { $0.finished(on: number, isCredentialAccepted: isProof, now: .now, &$1) }
    }

    /// Applies the effect of a response to the connection that carried it.
    package func apply(_ effect: ConnectionEffect, to connection: Int) {
        switch effect {
        case .keep: break
        case .drain: update { $0.drain(connection, now: .now, &$1) }
        case .drainAll: update { $0.drainAll(now: .now, &$1) }
        }
    }

    /// Accepts no more requests; connections close once their requests in flight are answered.
    package nonisolated func retire() { assumeIsolated { $0.update { $0.retire(&$1) } } }

    /// Closes all connections; requests without a response fail.
    package nonisolated func close() {
        assumeIsolated { upstream in
            upstream.update { $0.retire(&$1) }
            for dial in upstream.dials.values { dial.cancel() }
            for connection in upstream.connections.values { connection.close() }
        }
    }

    // MARK: Pool actions

    /// Applies an event to the pool and performs the resulting actions.
    private func update(_ event: (inout PoolState, inout [PoolState.Action]) -> Void) {
        var actions: [PoolState.Action] = []
        event(&pool, &actions)
        perform(actions)
    }

    private func perform(_ actions: [PoolState.Action]) {
        for action in actions {
            switch action {
            case .dial(let number): dial(number)
            case .run(let request, let number):
                waiting.removeValue(forKey: request)?.continuation.resume(returning: .success(number))
            case .fail(let request, let reason):
                waiting.removeValue(forKey: request)?.continuation.resume(returning: .failure(Self.refusal(reason)))
            case .wake(let time): startWake(at: time)
            case .drain(let number): connections[number]?.drain()
            }
        }
    }

    private func dial(_ number: Int) {
        selfWhileOpen = self
        dials[number] = Task {
            let result: Result<ByteStream, StreamError>
            do throws(StreamError) {
                result = .success(
                    try await loop.dial(
                        target.endpoint, through: target.proxy, tls: target.tls, timeout: target.dialTimeout))
            } catch {
                result = .failure(error)
            }
            dialled(number, result)
        }
    }

    private func dialled(_ number: Int, _ result: Result<ByteStream, StreamError>) {
        let isCancelled = dials.removeValue(forKey: number)?.isCancelled ?? true
        switch result {
        case .success(let stream) where isCancelled:
            stream.close()
            ended(number, because: "closed locally")
        case .success(let stream):
            let connection = ClientConnection(stream, owner: self)
            connections[number] = connection
            numbers[ObjectIdentifier(connection)] = number
            update { $0.opened(number, now: .now, &$1) }
            connection.start()
        case .failure(let error): ended(number, because: "\(error)")
        }
    }

    private func ended(_ number: Int, because reason: String) {
        let text = "\(target.endpoint): \(reason)"
        update { $0.ended(number, because: text, now: .now, random: Double.random(in: 0..<1), &$1) }
        if pool.isEmpty {
            sweep = nil
            wake = nil
            selfWhileOpen = nil
        }
    }

    // MARK: Time

    private func armSweep() {
        guard sweep == nil, !waiting.isEmpty else { return }
        sweep = Timer(on: loop, after: Self.deadlineResolution) { [unowned self] in
            assumeIsolated { $0.endOverdue() }
        }
    }

    private func endOverdue() {
        let now = MonotonicTime.now
        for (request, waiter) in waiting where waiter.deadline <= now {
            pool.expire(request: request)
            waiting[request] = nil
            waiter.continuation.resume(returning: .failure(.notProcessed(.timedOut)))
        }
        sweep = nil
        armSweep()
    }

    private func startWake(at time: MonotonicTime) {
        let timer =
            wake
            ?? Timer(on: loop) { [unowned self] in
                assumeIsolated { $0.update { $0.timeReached(.now, &$1) } }
            }
        timer.start(after: time - .now)
        wake = timer
    }

    // MARK: Events of connections

    /// Handles an event of a connection. Called on the loop.
    nonisolated func take(_ event: ClientConnection.Event, of connection: ClientConnection) {
        let identity = ObjectIdentifier(connection)
        // The connection is the caller: keep it alive until the call returns.
        withExtendedLifetime(connection) { assumeIsolated { $0.take(event, of: identity) } }
    }

    private func take(_ event: ClientConnection.Event, of identity: ObjectIdentifier) {
        guard let number = numbers[identity] else { return }
        switch event {
        case .allows(let streams): update { $0.allows(streams, on: number, now: .now, &$1) }
        case .goingAway: update { $0.drain(number, now: .now, &$1) }
        case .ended(let reason):
            numbers[identity] = nil
            connections[number] = nil
            ended(number, because: reason)
        }
    }
}
