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
    /// The body.
    package let body: [UInt8]
    /// Whether the body exceeded the server's limit and is truncated.
    package let isTooLarge: Bool
}

/// Answers a server's requests. Called on the server's loop.
package protocol RequestHandler: AnyObject {
    /// Handles a complete request; the answer goes to ``ServerConnection/respond(to:_:)``, at once or later.
    func handle(_ request: ServerRequest, on connection: ServerConnection)
    /// Called when a stream is closed: with code 0 (NO_ERROR) its answer is on its way, with any other code it is lost.
    func streamClosed(_ stream: Int32, code: UInt32, on connection: ServerConnection)
    /// Called once, when the connection delivers no more requests and accepts no more answers.
    func connectionEnded(_ connection: ServerConnection)
}

extension RequestHandler {
    package func streamClosed(_ stream: Int32, code: UInt32, on connection: ServerConnection) {}
    package func connectionEnded(_ connection: ServerConnection) {}
}

/// An HTTP/2 server, the base of the simulated push services.
package final class Server {
    /// The limits of a server.
    package struct Limits: Sendable {
        /// SETTINGS_MAX_CONCURRENT_STREAMS.
        package var concurrentStreams: UInt32
        /// Maximum size of a request body in bytes; more is read and dropped.
        package var largestBody: Int

        /// Creates limits.
        /// - Parameters: as the properties of the same names.
        package init(concurrentStreams: UInt32 = 1000, largestBody: Int = 64 * 1024) {
            self.concurrentStreams = concurrentStreams
            self.largestBody = largestBody
        }
    }

    private let loop: EventLoop
    private let handler: any RequestHandler
    private var address: Endpoint
    private var tls: TLSContext
    private var limits: Limits
    private var isSwallowing = false
    private var listener: Listener?
    /// The connections by number, so that they are always called in the same order.
    private var connections: [Int: ServerConnection] = [:]
    private var blackHoles: [Int: DiscardHandler] = [:]
    /// Number of TCP connections accepted so far.
    package private(set) var accepted = 0

    /// Listens on `endpoint` with TLS and passes each request to `handler`.
    /// - Throws: ``ListenError``.
    package init(
        on endpoint: Endpoint, loop: EventLoop, tls: TLSContext, limits: Limits = Limits(), handler: any RequestHandler
    ) throws(ListenError) {
        self.loop = loop
        self.handler = handler
        self.tls = tls
        self.limits = limits
        address = endpoint
        try open()
    }

    /// Where the server listens; `nil` while it is closed.
    package var endpoint: Endpoint? { listener?.endpoint }

    /// Number of open connections.
    package var openConnections: Int { connections.values.count { !$0.isOver } + blackHoles.count }

    private var inOrder: [ServerConnection] { connections.sorted { $0.key < $1.key }.map(\.value) }

    /// Calls `body` with each open HTTP/2 connection.
    package func forEachConnection(_ body: (ServerConnection) -> Void) {
        for connection in inOrder where !connection.isOver { body(connection) }
    }

    /// Closes the listener and all connections, without GOAWAY.
    package func close() {
        listener = nil
        for connection in inOrder { connection.close() }
        connections = [:]
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

    /// Changes the certificate for new connections.
    /// - Throws: ``ListenError``, because the listener is reopened.
    package func use(_ tls: TLSContext) throws(ListenError) {
        self.tls = tls
        try reopen()
    }

    /// Starts or stops swallowing: connections read and drop all bytes and write nothing, new ones even before TLS.
    /// After a stop, only connections that are opened from then on are served.
    /// - Throws: ``ListenError``, because the listener is reopened.
    package func set(isSwallowing: Bool) throws(ListenError) {
        guard isSwallowing != self.isSwallowing else { return }
        self.isSwallowing = isSwallowing
        if isSwallowing { forEachConnection { $0.swallow() } }
        try reopen()
    }

    private func reopen() throws(ListenError) {
        guard listener != nil else { return }
        listener = nil
        try open()
    }

    private func open() throws(ListenError) {
        let opened = try Listener(address, on: loop, tls: isSwallowing ? nil : tls) { [unowned self] in accept($0) }
        // Keeps the port that the system chose, so that the next listener uses it again.
        address = opened.endpoint
        listener = opened
    }

    private func accept(_ stream: ByteStream) {
        accepted += 1
        let number = accepted
        if isSwallowing {
            blackHoles[number] = DiscardHandler(stream) { [weak self] _ in self?.blackHoles[number] = nil }
        } else {
            connections[number] = ServerConnection(stream, limits: limits, handler: handler) { [weak self] _ in
                self?.connections[number] = nil
            }
        }
    }
}
