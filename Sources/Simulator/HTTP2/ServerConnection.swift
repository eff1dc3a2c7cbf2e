// SPDX-License-Identifier: Apache-2.0

import EventLoop
import HTTP2

/// The server's side of one HTTP/2 connection.
package final class ServerConnection: SessionEvents, TurnEndHandler {
    private struct Slot {
        var headers = HeaderBlock()
        var body: [UInt8] = []
        var isTooLarge = false
        var answer: [UInt8] = []
        var answerSent = 0
    }

    /// The most bytes of header fields of one request.
    private static let largestHeaders = 16 * 1024
    private let limits: Server.Limits
    private let handler: any RequestHandler
    private let ended: (ServerConnection) -> Void
    private var session: Session!
    private var slots: [Slot] = []
    private var free: [Int] = []
    private var slotOfStream: [Int32: Int] = [:]
    private var hole: DiscardHandler?
    private var farewell: Timer?
    /// Whether the handler has been told that this connection has ended.
    private var isSilent = false
    private var lastStream = Int32.max
    /// The newest stream that the client has opened; 0: none yet.
    package private(set) var newestStream: Int32 = 0
    /// Whether the connection has ended, for whatever reason.
    package private(set) var isOver = false

    /// - Parameter ended: called once the connection may be let go of; not where the server itself lets go first.
    init(
        _ stream: ByteStream, limits: Server.Limits, handler: any RequestHandler,
        ended: @escaping (ServerConnection) -> Void
    ) {
        self.limits = limits
        self.handler = handler
        self.ended = ended
        session = Session(serving: stream, concurrentStreams: limits.concurrentStreams, events: self)
    }

    deinit { session.stream.close() }

    /// The common name of the client's certificate; nil where it showed none.
    package var clientCommonName: String? { session.stream.peerCommonName }

    /// Whether GOAWAY has been said, or is about to be.
    package var isGoingAway: Bool { lastStream != .max }

    // MARK: Answers

    /// Answers a request.
    /// - Returns: false where no answer can go out any more: the client has given the request up, or the connection is
    ///   over.
    @discardableResult
    package func respond(to stream: Int32, _ response: Response) -> Bool {
        guard !isSilent, let slot = slotOfStream[stream] else { return false }
        slots[slot].answer = response.body
        var block = HeaderBlock()
        block.append(":status", String(response.status))
        for (name, value) in response.headers.all { block.append(name, value) }
        session.respond(to: stream, slot: slot, headers: block, hasBody: !response.body.isEmpty)
        return true
    }

    /// Ends a request without an answer (RST_STREAM); does nothing where the client has given it up.
    /// - Parameter code: of RFC 9113 §7.
    package func reset(_ stream: Int32, code: UInt32) {
        guard !isSilent, slotOfStream[stream] != nil else { return }
        session.reset(stream, code: code)
    }

    // MARK: The connection

    /// Says GOAWAY: requests up to `lastStream` are still handled, later ones are dropped unseen, and the connection
    /// ends when all are answered. Only the first call counts.
    /// - Parameter lastStream: not below that of a request that has been processed, or the client is told a lie.
    package func goAway(lastStream: Int32) {
        guard !isSilent, !isGoingAway else { return }
        self.lastStream = lastStream
        session.goAway(lastStream: lastStream)
    }

    /// Sends new SETTINGS with this MAX_CONCURRENT_STREAMS.
    package func set(concurrentStreams: UInt32) {
        guard !isSilent else { return }
        session.set(concurrentStreams: concurrentStreams)
    }

    /// Makes it a black hole: from the end of this turn nothing is written any more, and what comes is dropped.
    package func swallow() {
        guard !isSilent else { return }
        silence()
        hole = DiscardHandler(session.stream) { [unowned self] _ in sessionEnded("swallowed") }
    }

    /// Drops the connection where it stands: no GOAWAY, no close_notify of TLS, and what was not sent is lost.
    package func close() {
        guard !isOver else { return }
        isOver = true
        session.stream.close()
        silence()
        // Let go of later: nghttp2 may be in the middle of this connection's bytes.
        session.stream.loop.atEndOfTurn(self)
    }

    package func turnEnded() { ended(self) }

    private func silence() {
        guard !isSilent else { return }
        isSilent = true
        handler.connectionEnded(self)
    }

    // MARK: SessionEvents

    package func session(began stream: Int32) {
        // Trailers begin a block of fields, too, but no stream.
        guard slotOfStream[stream] == nil else { return }
        newestStream = max(newestStream, stream)
        let slot = free.popLast() ?? slots.count
        if slot == slots.count { slots.append(Slot()) } else { slots[slot] = Slot() }
        slotOfStream[stream] = slot
        session.setSlot(slot, of: stream)
    }

    package func session(header name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>, slot: Int) -> Bool
    {
        guard slots[slot].headers.bytes.count + name.count + value.count <= Self.largestHeaders else { return false }
        slots[slot].headers.append(name, value)
        return true
    }

    package func session(data: UnsafeBufferPointer<UInt8>, slot: Int) -> Bool {
        if slots[slot].body.count + data.count > limits.largestBody {
            slots[slot].isTooLarge = true
        } else {
            slots[slot].body.append(contentsOf: data)
        }
        return true
    }

    package func session(endOf stream: Int32, slot: Int) {
        guard !isSilent, stream <= lastStream else { return }
        let request = ServerRequest(
            stream: stream, headers: slots[slot].headers, body: slots[slot].body, isTooLarge: slots[slot].isTooLarge)
        handler.handle(request, on: self)
    }

    package func session(sentHeadersOf slot: Int) {}

    package func session(closed stream: Int32, slot: Int, code: UInt32) {
        slotOfStream[stream] = nil
        slots[slot] = Slot()
        free.append(slot)
        if !isSilent { handler.streamClosed(stream, code: code, on: self) }
    }

    package func session(goAway lastStream: Int32, code: UInt32, debugData: [UInt8]) {}

    package func session(fill buffer: UnsafeMutableBufferPointer<UInt8>, slot: Int) -> (count: Int, isLast: Bool) {
        let rest = slots[slot].answer[slots[slot].answerSent...].prefix(buffer.count)
        _ = buffer.update(fromContentsOf: rest)
        slots[slot].answerSent += rest.count
        return (rest.count, slots[slot].answerSent == slots[slot].answer.count)
    }

    package func sessionEnded(_ reason: String) {
        guard !isOver else { return }
        isOver = true
        silence()
        guard session.stream.endReason == nil else { return ended(self) }
        // The last words are still on their way, and would be cut off if the stream were let go of now.
        let timer = Timer(on: session.stream.loop) { [unowned self] in ended(self) }
        timer.start(after: ByteStream.lingerTime)
        farewell = timer
    }
}
