// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import HTTP2

/// A complete request received by a server.
package struct ServerRequest: Sendable, Redacted {
    /// The stream id, which identifies the request on its connection.
    package let stream: Int32
    /// The header fields, including pseudo-header fields.
    package let headers: HeaderBlock
    package let body: [UInt8]
    /// Whether the body exceeded the server's limit and is truncated.
    package let isTooLarge: Bool
}

/// The server's side of one connection.
package protocol ServedConnection: AnyObject {
    /// The common name of the client's certificate; `nil` if the client sent none.
    var clientCommonName: String? { get }
    /// The newest stream that the client has opened; 0 if there is none yet.
    var newestStream: Int32 { get }
    /// Whether GOAWAY has been sent or queued.
    var isGoingAway: Bool { get }
    /// Whether the connection has ended.
    var isOver: Bool { get }
    /// Answers a request.
    /// - Returns: false if the client has cancelled the request or the connection has ended.
    @discardableResult func respond(to stream: Int32, _ response: Response) -> Bool
    /// Resets a request without an answer (RST_STREAM); does nothing if the client has cancelled it.
    /// - Parameter code: an error code of RFC 9113 §7.
    func reset(_ stream: Int32, code: UInt32)
    /// Sends GOAWAY: requests up to `lastStream` are still handled, later ones are dropped without processing, and the
    /// connection closes when all are answered. Further calls have no effect.
    /// - Parameter lastStream: not below the stream of a processed request; otherwise GOAWAY would be wrong.
    func goAway(lastStream: Int32)
    /// Sends new SETTINGS with this MAX_CONCURRENT_STREAMS.
    func set(concurrentStreams: UInt32)
    /// Turns the connection into a black hole: from the end of this turn of the loop, it writes nothing and drops all
    /// received bytes.
    func swallow()
    /// Drops the connection: no GOAWAY, no TLS close_notify, and unsent data is lost.
    func close()
}

/// Answers a server's requests. Called on the server's loop.
package protocol RequestHandler: AnyObject {
    /// Handles a complete request; the answer goes to ``ServedConnection/respond(to:_:)``, at once or later.
    func handle(_ request: ServerRequest, on connection: any ServedConnection)
    /// Called when a stream is closed. With code 0 (NO_ERROR) the answer has been sent, with any other code it is lost.
    func streamClosed(_ stream: Int32, code: UInt32, on connection: any ServedConnection)
    /// Called once, when the connection delivers no more requests and accepts no more answers.
    func connectionEnded(_ connection: any ServedConnection)
}

extension RequestHandler {
    package func streamClosed(_ stream: Int32, code: UInt32, on connection: any ServedConnection) {}
    package func connectionEnded(_ connection: any ServedConnection) {}
}

/// A server of HTTP/2, and of HTTP/1.1 if that is switched on: the base of the simulated push services.
package final class Server {
    package struct Limits: Sendable {
        /// SETTINGS_MAX_CONCURRENT_STREAMS.
        package var concurrentStreams: UInt32
        /// Maximum size of a request body in bytes; more is read and dropped.
        package var maximumBody: Int

        package init(concurrentStreams: UInt32 = 1000, maximumBody: Int = 64 * 1024) {
            self.concurrentStreams = concurrentStreams
            self.maximumBody = maximumBody
        }
    }

    private let loop: EventLoop
    private let handler: any RequestHandler
    private var address: Endpoint
    private var tls: TLSContext
    /// Whether clients may speak HTTP/1.1: by ALPN, or without ALPN.
    private var speaksHTTP1: Bool
    private var limits: Limits
    private var isSwallowing = false
    private var listener: Listener?
    /// The connections by number, so that they are always called in the same order.
    private var connections: [Int: any ServedConnection] = [:]
    /// Connections whose TLS handshake has yet to choose HTTP/2 or HTTP/1.1.
    private var probes: [Int: ProtocolProbe] = [:]
    private var blackHoles: [Int: DiscardHandler] = [:]
    /// Number of TCP connections accepted so far.
    package private(set) var accepted = 0

    /// Listens on `endpoint` with TLS and passes each request to `handler`.
    /// - Throws: ``ListenError``.
    package init(
        on endpoint: Endpoint, loop: EventLoop, tls: TLSContext, speaksHTTP1: Bool = false, limits: Limits = Limits(),
        handler: any RequestHandler
    ) throws(ListenError) {
        self.loop = loop
        self.handler = handler
        self.tls = tls
        self.speaksHTTP1 = speaksHTTP1
        self.limits = limits
        address = endpoint
        try open()
    }

    /// Where the server listens; `nil` while it is closed.
    package var endpoint: Endpoint? { listener?.endpoint }

    package var openConnections: Int { connections.values.count { !$0.isOver } + probes.count + blackHoles.count }

    private var inOrder: [any ServedConnection] { connections.sorted { $0.key < $1.key }.map(\.value) }

    /// Calls `body` with each open connection.
    package func forEachConnection(_ body: (any ServedConnection) -> Void) {
        for connection in inOrder where !connection.isOver { body(connection) }
    }

    /// Closes the listener and all connections, without GOAWAY.
    package func close() {
        listener = nil
        for connection in inOrder { connection.close() }
        connections = [:]
        probes = [:]
        blackHoles = [:]
    }

    /// Listens again on the same endpoint after ``close()``.
    /// - Throws: ``ListenError``.
    package func listen() throws(ListenError) {
        if listener == nil { try open() }
    }

    /// Changes SETTINGS_MAX_CONCURRENT_STREAMS, also on open connections.
    package func set(concurrentStreams: UInt32) {
        guard concurrentStreams != limits.concurrentStreams else { return }
        limits.concurrentStreams = concurrentStreams
        forEachConnection { $0.set(concurrentStreams: concurrentStreams) }
    }

    /// Changes the certificate and the protocols for new connections.
    package func use(_ tls: TLSContext, speaksHTTP1: Bool) {
        self.tls = tls
        self.speaksHTTP1 = speaksHTTP1
        listener?.tls = acceptedTLS
    }

    /// Starts or stops swallowing: connections in their TLS handshake are dropped, others read and drop all bytes and
    /// write nothing, new ones even before TLS. After a stop, only connections that are opened from then on are served.
    package func set(isSwallowing: Bool) {
        guard isSwallowing != self.isSwallowing else { return }
        self.isSwallowing = isSwallowing
        listener?.tls = acceptedTLS
        guard isSwallowing else { return }
        forEachConnection { $0.swallow() }
        probes = [:]
    }

    private var acceptedTLS: TLSContext? { isSwallowing ? nil : tls }

    private func open() throws(ListenError) {
        let opened = try Listener(address, on: loop, tls: acceptedTLS) { [unowned self] in accept($0) }
        // Keeps the port that the system chose, so that the next listener uses it again.
        address = opened.endpoint
        listener = opened
    }

    private func accept(_ stream: ByteStream) {
        accepted += 1
        let number = accepted
        if isSwallowing {
            blackHoles[number] = DiscardHandler(stream) { [weak self] _ in self?.blackHoles[number] = nil }
        } else if !speaksHTTP1 {
            serve(stream, number, speaksHTTP2: true)
        } else {
            probes[number] = ProtocolProbe(stream) { [unowned self] in
                probes[number] = nil
                serve(stream, number, speaksHTTP2: $0)
            } ended: { [weak self] in
                self?.probes[number] = nil
            }
        }
    }

    private func serve(_ stream: ByteStream, _ number: Int, speaksHTTP2: Bool) {
        let ended: (any ServedConnection) -> Void = { [weak self] _ in self?.connections[number] = nil }
        connections[number] =
            speaksHTTP2
            ? ServerConnection(stream, limits: limits, handler: handler, ended: ended)
            : HTTP1ServerConnection(stream, limits: limits, handler: handler, ended: ended)
    }
}
