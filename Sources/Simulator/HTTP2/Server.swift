// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import HTTP2

/// A request that a server got, whole.
package struct ServerRequest: Sendable, Redacted {
    /// Names the request on its connection.
    package let stream: Int32
    /// Pseudo-header fields included.
    package let headers: HeaderBlock
    package let body: [UInt8]
    /// Whether its body was larger than the server takes, and is cut off.
    package let isTooLarge: Bool
}

/// Answers a server's requests; on the server's loop.
package protocol RequestHandler: AnyObject {
    /// A whole request is there; the answer goes to ``ServerConnection/respond(to:_:)``, at once or later.
    func handle(_ request: ServerRequest, on connection: ServerConnection)
    /// A stream is closed: with code 0 (NO_ERROR) its answer is on its way, with any other nobody gets one.
    func streamClosed(_ stream: Int32, code: UInt32, on connection: ServerConnection)
    /// No request comes from this connection any more and no answer goes to it. Comes once.
    func connectionEnded(_ connection: ServerConnection)
}

extension RequestHandler {
    package func streamClosed(_ stream: Int32, code: UInt32, on connection: ServerConnection) {}
    package func connectionEnded(_ connection: ServerConnection) {}
}

/// An HTTP/2 server: what the stand-ins for Apple and Google are made of.
package final class Server {
    /// What a server says of itself to its clients.
    package struct Limits: Sendable {
        /// SETTINGS_MAX_CONCURRENT_STREAMS.
        package var concurrentStreams: UInt32
        /// The largest body of a request that is kept, in bytes; more is read and dropped.
        package var largestBody: Int

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
    private var connections: [ObjectIdentifier: ServerConnection] = [:]
    private var holes: [ObjectIdentifier: DiscardHandler] = [:]
    /// How many TCP connections have been accepted.
    package private(set) var accepted = 0

    /// Listens on `endpoint` with TLS and gives each request to `handler`.
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

    /// Where it listens; nil where it is closed.
    package var endpoint: Endpoint? { listener?.endpoint }

    /// How many connections there are.
    package var openConnections: Int { connections.values.count { !$0.isOver } + holes.count }

    /// Calls `body` with each connection that speaks HTTP/2.
    package func forEachConnection(_ body: (ServerConnection) -> Void) {
        for connection in Array(connections.values) where !connection.isOver { body(connection) }
    }

    /// Ends the server and its connections, without a word to anyone.
    package func close() {
        listener = nil
        for connection in connections.values { connection.close() }
        connections = [:]
        holes = [:]
    }

    /// Listens again where it did before ``close()``.
    /// - Throws: ``ListenError``.
    package func listen() throws(ListenError) {
        if listener == nil { try open() }
    }

    /// Changes SETTINGS_MAX_CONCURRENT_STREAMS, on the connections that there are as well.
    package func set(concurrentStreams: UInt32) {
        guard concurrentStreams != limits.concurrentStreams else { return }
        limits.concurrentStreams = concurrentStreams
        forEachConnection { $0.set(concurrentStreams: concurrentStreams) }
    }

    /// Shows another certificate to those who come from now on.
    /// - Throws: ``ListenError``: for this, it listens anew.
    package func use(_ tls: TLSContext) throws(ListenError) {
        self.tls = tls
        try reopen()
    }

    /// Makes the connections that there are black holes, and those that come from now on as well, before TLS; or lets
    /// new ones be good again. What has been swallowed once stays so.
    /// - Throws: ``ListenError``: for this, it listens anew.
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
        // The port that the system chose is kept for the next time.
        address = opened.endpoint
        listener = opened
    }

    private func accept(_ stream: ByteStream) {
        accepted += 1
        if isSwallowing {
            let hole = DiscardHandler(stream) { [weak self] in self?.holes[ObjectIdentifier($0)] = nil }
            holes[ObjectIdentifier(hole)] = hole
        } else {
            let connection = ServerConnection(stream, limits: limits, handler: handler) { [weak self] in
                self?.connections[ObjectIdentifier($0)] = nil
            }
            connections[ObjectIdentifier(connection)] = connection
        }
    }
}
