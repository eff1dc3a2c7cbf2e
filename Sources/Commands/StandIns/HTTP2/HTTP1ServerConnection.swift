// SPDX-License-Identifier: Apache-2.0

import EventLoop
import HTTP1
import HTTP2

/// The server's side of one HTTP/1.1 connection. Its requests count as streams 1, 3, 5 and so on.
final class HTTP1ServerConnection: ServedConnection, HTTPConnection.Delegate, TurnEndHandler {
    /// All time limits: so long that none of them ends a fault.
    private static let patience = Duration.seconds(24 * 3600)

    private let stream: ByteStream
    private let handler: any RequestHandler
    private let ended: (any ServedConnection) -> Void
    private var connection: HTTPConnection?
    private var blackHole: DiscardHandler?
    private(set) var newestStream: Int32 = 0
    private(set) var isOver = false
    private(set) var isGoingAway = false
    /// The stream of the request that has no answer yet.
    private var current: Int32?
    private var isDetached = false

    init(
        _ stream: ByteStream, limits: Server.Limits, handler: any RequestHandler,
        ended: @escaping (any ServedConnection) -> Void
    ) {
        self.stream = stream
        self.handler = handler
        self.ended = ended
        var http = HTTPLimits.standard
        http.body = limits.maximumBody
        http.requestTimeout = Self.patience
        http.idleTimeout = Self.patience
        http.readTimeout = Self.patience
        http.firstByteTimeout = Self.patience
        connection = HTTPConnection(stream, limits: http, host: self)
    }

    var clientCommonName: String? { ServerConnection.clientCommonName(of: stream) }

    @discardableResult
    func respond(to stream: Int32, _ response: Response) -> Bool {
        guard !isDetached, current == stream else { return false }
        current = nil
        connection?.respond(HTTPResponse(status: response.status, headers: response.headers.all, body: response.body))
        if !isDetached { handler.streamClosed(stream, code: 0, on: self) }
        return true
    }

    /// HTTP/1.1 has no way to end a request without its connection.
    func reset(_ stream: Int32, code: UInt32) { if current == stream { close() } }

    /// The answer to the current request is the last one; without one, the connection closes at once.
    func goAway(lastStream: Int32) {
        guard !isDetached, !isGoingAway else { return }
        isGoingAway = true
        if let current, current > lastStream { return close() }
        connection?.drain()
    }

    func set(concurrentStreams: UInt32) {}

    func swallow() {
        guard !isDetached else { return }
        detachHandler()
        blackHole = DiscardHandler(stream) { [unowned self] _ in close() }
        // A request without an answer has paused reading.
        stream.resumeReading()
    }

    func close() {
        guard !isOver else { return }
        isOver = true
        connection?.close()
        stream.close()
        detachHandler()
        // Released at the end of the turn: the `HTTPConnection` may still be calling this object.
        stream.loop.atEndOfTurn(self)
    }

    func turnEnded() { ended(self) }

    private func detachHandler() {
        guard !isDetached else { return }
        isDetached = true
        handler.connectionEnded(self)
    }

    // MARK: HTTPConnection.Delegate

    func handle(_ request: HTTPRequest, on connection: HTTPConnection) {
        guard !isDetached else { return }
        newestStream += newestStream == 0 ? 1 : 2
        current = newestStream
        var headers = HeaderBlock()
        headers.append(":method", request.method)
        headers.append(":path", String(decoding: request.target, as: UTF8.self))
        headers.append(":authority", request.header("host") ?? "")
        for (name, value) in request.headers where name != "host" { headers.append(name, value) }
        handler.handle(
            ServerRequest(stream: newestStream, headers: headers, body: request.body, isTooLarge: false), on: self)
    }

    func errorResponse(for fault: HTTPRequestError, on connection: HTTPConnection) -> [UInt8] {
        HTTPResponse(status: fault.status).encoded(keepsAlive: false)
    }

    func closed(_ connection: HTTPConnection) { close() }
}

/// Waits for the end of the TLS handshake, which decides the protocol.
final class ProtocolProbe: ByteStreamHandler {
    private let decided: (_ speaksHTTP2: Bool) -> Void
    private let ended: () -> Void
    /// The stream, until it has another handler.
    private var stream: ByteStream?

    /// - Parameters:
    ///   - decided: called after the handshake; gives the stream its next handler.
    ///   - ended: called instead if the stream ends before.
    init(_ stream: ByteStream, decided: @escaping (_ speaksHTTP2: Bool) -> Void, ended: @escaping () -> Void) {
        self.decided = decided
        self.ended = ended
        self.stream = stream
        stream.handler = self
    }

    deinit { stream?.close() }

    func streamDrained(_ stream: ByteStream) {
        self.stream = nil
        decided(stream.applicationProtocol == "h2")
    }

    func stream(_ stream: ByteStream, received bytes: RawSpan) {}

    func stream(_ stream: ByteStream, ended reason: StreamError) { ended() }
}
