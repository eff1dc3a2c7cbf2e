// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import Cryptography
import EventLoop
import HTTP2

/// The server's side of one HTTP/2 connection.
package final class ServerConnection: SessionHandler, ServedConnection, TurnEndHandler {
    private struct Slot {
        var headers = HeaderBlock()
        var body: [UInt8] = []
        var isTooLarge = false
        var answer: [UInt8] = []
        var answerSent = 0
    }

    /// Maximum size of the header fields of one request, in bytes.
    private static let maximumHeaders = 16 * 1024
    private let limits: Server.Limits
    private let handler: any RequestHandler
    private let ended: (any ServedConnection) -> Void
    private var session: Session!
    private var slots: [Slot] = []
    private var free: [Int] = []
    private var slotOfStream: [Int32: Int] = [:]
    private var blackHole: DiscardHandler?
    private var lingerTimer: Timer?
    /// Whether the handler has been notified of the end of this connection and receives no further calls.
    private var isDetached = false
    private var lastStream = Int32.max
    package private(set) var newestStream: Int32 = 0
    package private(set) var isOver = false

    /// - Parameter ended: called once the connection may be released, unless the server releases it first.
    init(
        _ stream: ByteStream, limits: Server.Limits, handler: any RequestHandler,
        ended: @escaping (any ServedConnection) -> Void
    ) {
        self.limits = limits
        self.handler = handler
        self.ended = ended
        super.init()
        session = Session(serving: stream, concurrentStreams: limits.concurrentStreams, handler: self)
    }

    deinit { session.stream.close() }

    package var clientCommonName: String? { Self.clientCommonName(of: session.stream) }

    /// The common name of the certificate of a stream's client; `nil` if the client sent none.
    static func clientCommonName(of stream: ByteStream) -> String? {
        guard let certificate = stream.ssl.flatMap({ SSL_get1_peer_certificate($0) }) else { return nil }
        defer { X509_free(certificate) }
        return subjectEntry(NID_commonName, of: certificate)
    }

    package var isGoingAway: Bool { lastStream != .max }

    // MARK: Answers

    @discardableResult
    package func respond(to stream: Int32, _ response: Response) -> Bool {
        guard !isDetached, let slot = slotOfStream[stream] else { return false }
        slots[slot].answer = response.body
        var block = HeaderBlock()
        block.append(":status", String(response.status))
        for (name, value) in response.headers.all { block.append(name, value) }
        session.respond(to: stream, slot: slot, headers: block, hasBody: !response.body.isEmpty)
        return true
    }

    package func reset(_ stream: Int32, code: UInt32) {
        guard !isDetached, slotOfStream[stream] != nil else { return }
        session.reset(stream, code: code)
    }

    // MARK: The connection

    package func goAway(lastStream: Int32) {
        guard !isDetached, !isGoingAway else { return }
        self.lastStream = lastStream
        session.goAway(lastStream: lastStream)
    }

    package func set(concurrentStreams: UInt32) {
        guard !isDetached else { return }
        session.set(concurrentStreams: concurrentStreams)
    }

    package func swallow() {
        guard !isDetached else { return }
        detachHandler()
        blackHole = DiscardHandler(session.stream) { [unowned self] _ in sessionEnded("swallowed") }
    }

    package func close() {
        guard !isOver else { return }
        isOver = true
        session.stream.close()
        detachHandler()
        // Released at the end of the turn: nghttp2 may still be processing this connection's bytes.
        session.stream.loop.atEndOfTurn(self)
    }

    /// Releases the connection after ``close()``.
    package func turnEnded() { ended(self) }

    private func detachHandler() {
        guard !isDetached else { return }
        isDetached = true
        handler.connectionEnded(self)
    }

    // MARK: Events of the session

    override package func session(began stream: Int32) {
        // Trailers also begin a header block, but no new stream.
        guard slotOfStream[stream] == nil else { return }
        newestStream = max(newestStream, stream)
        let slot = free.popLast() ?? slots.count
        if slot == slots.count { slots.append(Slot()) } else { slots[slot] = Slot() }
        slotOfStream[stream] = slot
        session.setSlot(slot, of: stream)
    }

    override package func session(header name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>, slot: Int)
        -> Bool
    {
        guard slots[slot].headers.bytes.count + name.count + value.count <= Self.maximumHeaders else { return false }
        slots[slot].headers.append(name, value)
        return true
    }

    override package func session(data: UnsafeBufferPointer<UInt8>, slot: Int) -> Bool {
        if slots[slot].body.count + data.count > limits.maximumBody {
            slots[slot].isTooLarge = true
        } else {
            slots[slot].body.append(contentsOf: data)
        }
        return true
    }

    override package func session(endOf stream: Int32, slot: Int) {
        guard !isDetached, stream <= lastStream else { return }
        let request = ServerRequest(
            stream: stream, headers: slots[slot].headers, body: slots[slot].body, isTooLarge: slots[slot].isTooLarge)
        handler.handle(request, on: self)
    }

    override package func session(closed stream: Int32, slot: Int, code: UInt32) {
        slotOfStream[stream] = nil
        slots[slot] = Slot()
        free.append(slot)
        if !isDetached { handler.streamClosed(stream, code: code, on: self) }
    }

    override package func session(fill buffer: UnsafeMutableBufferPointer<UInt8>, slot: Int) -> (
        count: Int, isLast: Bool
    ) {
        let rest = slots[slot].answer[slots[slot].answerSent...].prefix(buffer.count)
        _ = buffer.update(fromContentsOf: rest)
        slots[slot].answerSent += rest.count
        return (rest.count, slots[slot].answerSent == slots[slot].answer.count)
    }

    override package func sessionEnded(_ reason: String) {
        guard !isOver else { return }
        isOver = true
        detachHandler()
        guard session.stream.endReason == nil else { return ended(self) }
        // Releases the stream later, because doing so now would discard data that is still being sent.
        let timer = Timer(on: session.stream.loop) { [unowned self] in ended(self) }
        timer.start(after: ByteStream.lingerTime)
        lingerTimer = timer
    }
}
