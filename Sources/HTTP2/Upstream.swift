import EventLoop

/// A server that requests go to, by one connection at a time: opened at the first request, replaced when the server
/// goes away or the connection is lost. One attempt each: a request that fails says so to its caller.
public final class Upstream: ClientConnectionOwner {
    /// Where the server is and how it is reached.
    public struct Target: Sendable {
        /// Host and port; the host is also the name that the certificate must carry.
        public var endpoint: Endpoint
        /// How TLS is set up; its application protocol is `h2`.
        public var tls: TLSContext
        /// Through which proxy, where not directly.
        public var proxy: Proxy?
        /// For connecting, TLS included.
        public var dialTimeout: Duration

        /// - Parameters: as the properties of the same names.
        public init(endpoint: Endpoint, tls: TLSContext, proxy: Proxy? = nil, dialTimeout: Duration = .seconds(20)) {
            self.endpoint = endpoint
            self.tls = tls
            self.proxy = proxy
            self.dialTimeout = dialTimeout
        }
    }

    /// After a failed dial, how long requests fail at once instead of dialling again.
    public static let pauseAfterFailure = Duration.seconds(1)

    /// Where requests go.
    public let target: Target
    private let loop: EventLoop
    private var connection: ClientConnection?
    /// Connections that still answer what they have taken while another takes over.
    private var leaving: [ClientConnection] = []
    private var isDialling = false
    private var isClosed = false
    private var waitingForDial: [UnsafeContinuation<Void, Never>] = []
    private var lastFailure: (cause: String, at: MonotonicTime)?

    /// A server that is not connected to yet.
    public init(_ target: Target, on loop: EventLoop) {
        self.target = target
        self.loop = loop
    }

    /// Sends a request and waits for the answer; a new connection is opened where there is none.
    /// - Parameter timeout: for the answer, once there is a connection.
    /// - Throws: ``RequestFailure``.
    public func send(
        _ request: Request, timeout: Duration, isolation: isolated (any Actor)? = #isolation
    ) async throws(RequestFailure) -> Response {
        try await usableConnection().send(request, timeout: timeout)
    }

    /// Ends all connections; requests without an answer fail.
    public func close() {
        isClosed = true
        for connection in leaving { connection.close() }
        connection?.close()
    }

    private func usableConnection(
        isolation: isolated (any Actor)? = #isolation
    ) async throws(RequestFailure) -> ClientConnection {
        while true {
            if isClosed { throw .notProcessed(.unreachable("this side has ended")) }
            if let connection, connection.isUsable { return connection }
            if let lastFailure, MonotonicTime.now - lastFailure.at < Self.pauseAfterFailure {
                throw .notProcessed(.unreachable(lastFailure.cause))
            }
            if isDialling {
                await withUnsafeContinuation { waitingForDial.append($0) }
            } else {
                await dial()
            }
        }
    }

    private func dial(isolation: isolated (any Actor)? = #isolation) async {
        isDialling = true
        do {
            let stream = try await loop.dial(
                target.endpoint, through: target.proxy, tls: target.tls, timeout: target.dialTimeout)
            if isClosed {
                stream.close()
            } else {
                connection = ClientConnection(stream, owner: self)
                lastFailure = nil
            }
        } catch {
            lastFailure = ("\(target.endpoint): \(error)", .now)
        }
        isDialling = false
        let waiting = waitingForDial
        waitingForDial = []
        for continuation in waiting { continuation.resume() }
    }

    public func connectionIsGoingAway(_ connection: ClientConnection, reason: String) {
        guard connection === self.connection else { return }
        self.connection = nil
        leaving.append(connection)
    }

    public func connectionEnded(_ connection: ClientConnection, reason: String) {
        if connection === self.connection {
            self.connection = nil
            // E.g. a client certificate that the server refuses shows only now: dialling again at once would not help.
            if !connection.hasAnswered { lastFailure = ("\(target.endpoint): \(reason)", .now) }
        }
        leaving.removeAll { $0 === connection }
    }
}
