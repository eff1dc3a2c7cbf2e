// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// Receives the results of requests, on the client's loop.
package protocol HTTPClientReceiver: AnyObject {
    /// The client calls this once for each request; `number` is the one given with the request.
    func received(_ result: Result<HTTPClientResponse, HTTPClientFailure>, for number: UInt64)
}

/// Sends requests to one server with HTTP/1.1 (RFC 9112): one at a time over each of a few connections, which stay open
/// for further requests, as ``HTTPClientState`` decides. It waits for the response before it uses a connection again,
/// because pipelined requests would fail with those before them. Keeps itself alive while it has connections or
/// requests: close it.
package final class HTTPClient: @unchecked Sendable {
    // Unchecked: used on the loop's thread only.

    private struct Exchange {
        let request: HTTPClientRequest
        let number: UInt64
        let receiver: any HTTPClientReceiver
    }

    /// The largest number of connections.
    package static let maximumConnections = HTTPClientState.maximumConnections
    private static let tickInterval = Duration.milliseconds(250)

    private let destination: Destination
    private let loop: EventLoop
    private var state = HTTPClientState()
    /// The requests without a result.
    private var exchanges: [Int: Exchange] = [:]
    private var connections: [Int: Connection] = [:]
    private var lastRequest = 0
    private var ticker: Timer?

    /// A client without connections; the first request opens one.
    package init(_ destination: Destination, on loop: EventLoop) {
        self.destination = destination
        self.loop = loop
    }

    /// Sends a request.
    /// - Parameters:
    ///   - timeout: for the whole exchange, including the wait for a connection.
    ///   - receiver: receives the result within the timeout, possibly before this returns.
    package func start(
        _ request: HTTPClientRequest, timeout: Duration, number: UInt64, for receiver: any HTTPClientReceiver
    ) {
        loop.preconditionOnLoop()
        lastRequest += 1
        exchanges[lastRequest] = Exchange(request: request, number: number, receiver: receiver)
        update { $0.start(lastRequest, deadline: .now + timeout, &$1) }
    }

    /// Closes all connections; requests without a response fail.
    package func close() { update { $0.close(&$1) } }

    /// Applies an event to the state and performs the resulting actions.
    private func update(_ event: (inout HTTPClientState, inout [HTTPClientState.Action]) -> Void) {
        withExtendedLifetime(self) {
            var actions: [HTTPClientState.Action] = []
            event(&state, &actions)
            for action in actions { perform(action) }
            if state.isEmpty { loop.letGo(of: self) } else { loop.keep(self) }
            if state.isEmpty { ticker = nil } else { startTicker() }
        }
    }

    private func perform(_ action: HTTPClientState.Action) {
        switch action {
        case .dial(let number): loop.dial(destination) { [self] in dialled(number, $0) }
        case .send(let request, let number):
            guard let exchange = exchanges[request] else { return }
            connections[number]?.send(exchange.request, request)
        case .fail(let request, let failure): finish(request, .failure(failure))
        case .close(let number): connections.removeValue(forKey: number)?.stream.close()
        case .abort(let number): connections.removeValue(forKey: number)?.stream.abort()
        }
    }

    private func finish(_ request: Int, _ result: Result<HTTPClientResponse, HTTPClientFailure>) {
        guard let exchange = exchanges.removeValue(forKey: request) else { return }
        exchange.receiver.received(result, for: exchange.number)
    }

    private func startTicker() {
        guard ticker == nil else { return }
        ticker = Timer(on: loop, after: Self.tickInterval) { [unowned self] in
            ticker = nil
            update { $0.timePassed(.now, &$1) }
        }
    }

    // MARK: Connections

    private func dialled(_ number: Int, _ result: Result<ByteStream, StreamError>) {
        switch result {
        case .success(let stream):
            if let reason = stream.endReason {
                stream.close()
                return update { $0.couldNotOpen(number, reason, &$1) }
            }
            connections[number] = Connection(stream, number, of: self)
            update { $0.opened(number, now: .now, &$1) }
            stream.resumeReading()
        case .failure(let error): update { $0.couldNotOpen(number, error, &$1) }
        }
    }

    /// One connection. It keeps itself alive until it has ended.
    private final class Connection: ByteStreamHandler {
        let stream: ByteStream
        private let number: Int
        /// The request without a response.
        private var request: Int?
        private let decoder = ResponseDecoder()
        private unowned let owner: HTTPClient

        init(_ stream: ByteStream, _ number: Int, of owner: HTTPClient) {
            self.stream = stream
            self.number = number
            self.owner = owner
            stream.handler = self
        }

        func send(_ bytes: HTTPClientRequest, _ request: Int) {
            self.request = request
            stream.write(bytes.bytes)
        }

        func stream(_ stream: ByteStream, received bytes: RawSpan) {
            withExtendedLifetime((self, owner)) {
                do throws(ResponseDecoder.Fault) {
                    // Without a request, a server must not send anything.
                    guard request != nil else { throw .malformed }
                    if let response = try decoder.append(bytes) {
                        answered(response, keepsAlive: response.keepsAlive)
                    }
                } catch {
                    let failure: HTTPClientFailure =
                        error == .tooLarge ? .tooLarge : .lost("the server does not speak HTTP/1.1")
                    owner.update { $0.broken(number, failure, &$1) }
                }
            }
        }

        private func answered(_ response: HTTPClientResponse, keepsAlive: Bool) {
            guard let request = request.take() else { return }
            owner.update { $0.answered(on: number, keepsAlive: keepsAlive, now: .now, &$1) }
            owner.finish(request, .success(response))
        }

        func stream(_ stream: ByteStream, ended reason: StreamError) {
            withExtendedLifetime((self, owner)) {
                if request != nil, let response = decoder.connectionClosed() { answered(response, keepsAlive: false) }
                owner.update { $0.ended(number, because: reason, &$1) }
                owner.connections[number] = nil
            }
        }
    }
}
