// SPDX-License-Identifier: Apache-2.0

import Cryptography
import DequeModule
import EventLoop
import Time

/// A request of ``HTTPClient``. Prints as `<redacted>`.
package struct HTTPClientRequest: Sendable, Redacted {
    /// The whole request: head and body.
    let bytes: [UInt8]

    /// A POST request.
    /// - Parameters:
    ///   - path: the path with its query.
    ///   - host: the value of `Host`.
    ///   - fields: further header fields. Neither names nor values may contain control characters.
    package init(
        postTo path: some Collection<UInt8>, host: String, fields: [(String, String)], body: some Collection<UInt8>
    ) {
        var bytes = Array("POST ".utf8)
        bytes += path
        bytes += " HTTP/1.1\r\nHost: \(host)\r\nContent-Length: \(body.count)\r\n".utf8
        for (name, value) in fields { bytes += "\(name): \(value)\r\n".utf8 }
        bytes += "\r\n".utf8
        bytes += body
        self.bytes = bytes
    }
}

/// A response to a request of ``HTTPClient``, without its body.
package struct HTTPClientResponse: Sendable {
    /// The status code.
    package internal(set) var status = 0
    /// The header fields, with names in lower case.
    package internal(set) var fields: [(name: String, value: String)] = []
    /// Whether the connection can carry another request.
    var keepsAlive = false
}

/// Why a request of ``HTTPClient`` has no response.
package enum HTTPClientFailure: Error, Equatable, Sendable {
    /// No connection could be opened.
    case unreachable(StreamError)
    /// All connections were in use until the request's timeout.
    case noConnection
    /// The connection ended after the request was sent; the server may have processed it.
    case lost(String)
    /// No response within the timeout; the server may have processed the request.
    case timedOut
    /// The response is larger than any that is expected.
    case tooLarge
}

/// Receives the results of requests, on the client's loop.
package protocol HTTPClientReceiver: AnyObject {
    /// Called once for each request, with the number given with it.
    func received(_ result: Result<HTTPClientResponse, HTTPClientFailure>, for number: UInt64)
}

/// Sends requests to one server with HTTP/1.1 (RFC 9112): one at a time over each of a few connections, which stay open
/// for the next. It waits for the response before it uses a connection again: pipelined requests would share the fate of
/// those before them. Keeps itself alive while it has connections or requests: close it.
package final class HTTPClient: @unchecked Sendable {
    // Unchecked: used on the loop's thread only.

    /// Where the server is, and how to connect to it.
    package struct Target: Sendable {
        /// Host and port.
        package var endpoint: Endpoint
        /// The TLS settings; `nil` for plain HTTP.
        package var tls: TLSContext?
        /// The proxy to connect through; `nil` for direct connections.
        package var proxy: Proxy?
        /// The addresses that may be dialled, without a proxy.
        package var addresses: AddressPolicy
        /// The timeout for connecting, including the TLS handshake.
        package var dialTimeout: Duration

        /// - Parameters: as the properties of the same names.
        package init(
            endpoint: Endpoint, tls: TLSContext?, proxy: Proxy?, addresses: AddressPolicy, dialTimeout: Duration
        ) {
            self.endpoint = endpoint
            self.tls = tls
            self.proxy = proxy
            self.addresses = addresses
            self.dialTimeout = dialTimeout
        }
    }

    private struct Exchange {
        let request: HTTPClientRequest
        let deadline: MonotonicTime
        let number: UInt64
        let receiver: any HTTPClientReceiver
    }

    /// The largest number of connections.
    package static let maximumConnections = 6
    /// How long a connection stays open without a request. Servers close idle connections too, many after a minute.
    private static let idleTime = Duration.seconds(20)
    private static let tickInterval = Duration.milliseconds(250)

    private let target: Target
    private let loop: EventLoop
    private var waiting: Deque<Exchange> = []
    private var dialling: Set<Int> = []
    private var connections: [Int: Connection] = [:]
    private var lastConnection = 0
    private var ticker: Timer?
    private var isClosed = false
    private var selfWhileOpen: HTTPClient?

    /// A client without connections; the first request opens one.
    package init(_ target: Target, on loop: EventLoop) {
        self.target = target
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
        guard !isClosed else { return receiver.received(.failure(.noConnection), for: number) }
        selfWhileOpen = self
        waiting.append(Exchange(request: request, deadline: .now + timeout, number: number, receiver: receiver))
        armTicker()
        serve()
    }

    /// Closes all connections; requests without a response fail.
    package func close() {
        guard !isClosed else { return }
        isClosed = true
        let open = Array(connections.values)
        (connections, dialling, ticker) = ([:], [], nil)
        for connection in open {
            connection.end(.lost("closed locally"))
        }
        fail(.noConnection)
        selfWhileOpen = nil
    }

    private func fail(_ failure: HTTPClientFailure) {
        while let exchange = waiting.popFirst() { exchange.receiver.received(.failure(failure), for: exchange.number) }
    }

    /// Gives requests to idle connections, and opens connections for the rest.
    private func serve() {
        for connection in connections.values where connection.exchange == nil {
            guard let exchange = waiting.popFirst() else { return }
            connection.send(exchange)
        }
        while dialling.count < waiting.count, connections.count + dialling.count < Self.maximumConnections { dial() }
    }

    private func dial() {
        lastConnection += 1
        let number = lastConnection
        dialling.insert(number)
        Task(executorPreference: loop) { [self] in
            let result: Result<ByteStream, StreamError>
            do throws(StreamError) {
                result = .success(
                    try await loop.dial(
                        target.endpoint, through: target.proxy, tls: target.tls, addresses: target.addresses,
                        timeout: target.dialTimeout))
            } catch {
                result = .failure(error)
            }
            dialled(number, result)
        }
    }

    private func dialled(_ number: Int, _ result: Result<ByteStream, StreamError>) {
        let isWanted = dialling.remove(number) != nil
        switch result {
        case .success(let stream):
            guard isWanted, stream.endReason == nil else {
                stream.close()
                return isWanted ? couldNotConnect(stream.endReason ?? .closed) : ()
            }
            connections[number] = Connection(stream, number, of: self)
            serve()
            stream.resumeReading()
        case .failure(let error): couldNotConnect(error)
        }
    }

    /// The next dial would probably fail in the same way.
    private func couldNotConnect(_ error: StreamError) {
        if connections.isEmpty, dialling.isEmpty { fail(.unreachable(error)) }
    }

    private func ended(_ connection: Connection) {
        connections[connection.number] = nil
        guard !isClosed else { return }
        if connection.hasCarriedRequest { serve() } else { couldNotConnect(.closed) }
    }

    // MARK: Time

    private func armTicker() {
        guard ticker == nil else { return }
        ticker = Timer(on: loop, after: Self.tickInterval) { [unowned self] in tick() }
    }

    private func tick() {
        ticker = nil
        let now = MonotonicTime.now
        let overdue = waiting.filter { $0.deadline <= now }
        waiting.removeAll { $0.deadline <= now }
        for exchange in overdue { exchange.receiver.received(.failure(.noConnection), for: exchange.number) }
        for connection in connections.values {
            if let exchange = connection.exchange {
                if exchange.deadline <= now { connection.end(.timedOut) }
            } else if now - connection.idleSince >= Self.idleTime {
                connection.end(nil)
            }
        }
        if connections.isEmpty, dialling.isEmpty, waiting.isEmpty { selfWhileOpen = nil } else { armTicker() }
    }

    // MARK: Connections

    /// One connection. It keeps itself alive until it has ended.
    private final class Connection: ByteStreamHandler {
        let stream: ByteStream
        let number: Int
        private(set) var exchange: Exchange?
        private(set) var idleSince = MonotonicTime.now
        private(set) var hasCarriedRequest = false
        private let decoder = ResponseDecoder()
        private unowned let owner: HTTPClient

        init(_ stream: ByteStream, _ number: Int, of owner: HTTPClient) {
            self.stream = stream
            self.number = number
            self.owner = owner
            stream.handler = self
        }

        func send(_ exchange: Exchange) {
            self.exchange = exchange
            hasCarriedRequest = true
            stream.write(exchange.request.bytes)
        }

        /// Closes the connection.
        /// - Parameter failure: the result of the request in flight, if there is one.
        func end(_ failure: HTTPClientFailure?) {
            withExtendedLifetime(self) {
                if failure == .timedOut { stream.abort() } else { stream.close() }
                finish(failure)
            }
        }

        private func finish(_ failure: HTTPClientFailure?) {
            let exchange = exchange
            self.exchange = nil
            owner.ended(self)
            if let exchange, let failure { exchange.receiver.received(.failure(failure), for: exchange.number) }
        }

        func stream(_ stream: ByteStream, received bytes: RawSpan) {
            // The server has nothing to say without a request.
            guard let exchange else { return end(nil) }
            let response: HTTPClientResponse?
            do throws(ResponseDecoder.Fault) {
                response = try decoder.append(bytes)
            } catch {
                return end(error == .tooLarge ? .tooLarge : .lost("the server does not speak HTTP/1.1"))
            }
            if let response { answered(response, to: exchange) }
        }

        private func answered(_ response: HTTPClientResponse, to exchange: Exchange) {
            withExtendedLifetime(self) {
                self.exchange = nil
                idleSince = .now
                if response.keepsAlive {
                    owner.serve()
                } else {
                    end(nil)
                }
                exchange.receiver.received(.success(response), for: exchange.number)
            }
        }

        func stream(_ stream: ByteStream, ended reason: StreamError) {
            withExtendedLifetime(self) {
                if let exchange, let response = decoder.end() {
                    self.exchange = nil
                    finish(nil)
                    exchange.receiver.received(.success(response), for: exchange.number)
                } else {
                    finish(.lost(reason.description))
                }
            }
        }
    }
}
