import CNGHTTP2
import EventLoop

/// What an HTTP/2 client connection tells its owner; on the connection's loop.
public protocol ClientConnectionOwner: AnyObject {
    /// The server goes away (RFC 9113 §6.8): what it has taken is still answered, nothing new can be sent here.
    func connectionIsGoingAway(_ connection: ClientConnection, reason: String)
    /// The connection is over; every request on it has had its answer or failure.
    func connectionEnded(_ connection: ClientConnection, reason: String)
}

/// The client's side of one HTTP/2 connection: many requests at a time, each awaited by itself.
///
/// Requests beyond the server's MAX_CONCURRENT_STREAMS wait here, within their own deadlines. What is sent in one turn
/// of the loop goes out in one write.
public final class ClientConnection: SessionEvents {
    /// The largest body of an answer that is taken, in bytes.
    public static let largestResponse = 64 * 1024
    /// The most bytes of header fields of an answer that are taken.
    public static let largestResponseHeaders = 16 * 1024
    /// How often deadlines are looked at: a request may outlive its own by this much.
    private static let deadlineResolution = Duration.milliseconds(100)

    private struct Slot {
        var continuation: UnsafeContinuation<Result<Response, RequestFailure>, Never>?
        var stream: Int32 = 0
        var started = MonotonicTime(nanoseconds: 0)
        var deadline = MonotonicTime(nanoseconds: 0)
        var body: [UInt8] = []
        var bodySent = 0
        var isSent = false
        var isReset = false
        var response = Response(status: 0)
    }

    private weak var owner: (any ClientConnectionOwner)?
    private let loop: EventLoop
    private var session: Session!
    private var slots: [Slot] = []
    private var free: [Int] = []
    private var sweep: Timer?
    private var sweeping = false
    private var hasSent = false
    private var endReason: String?
    /// Requests without an answer.
    public private(set) var inFlight = 0
    /// Whether the server has said that it goes away.
    public private(set) var isGoingAway = false

    /// Whether the server has ever answered a request here.
    public private(set) var hasAnswered = false

    /// Speaks HTTP/2 on `stream`, which must be open. The owner is not retained.
    public init(_ stream: ByteStream, owner: (any ClientConnectionOwner)?) {
        self.owner = owner
        loop = stream.loop
        session = Session(
            stream, role: .client,
            settings: [
                nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0),
                nghttp2_settings_entry(
                    settings_id: Int32(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE.rawValue),
                    value: UInt32(Self.largestResponseHeaders)),
            ], events: self)
        sweep = Timer(on: loop) { [unowned self] in endOverdue() }
        stream.resumeReading()
    }

    deinit { session.stream.close() }

    /// Whether a request can still be sent here.
    public var isUsable: Bool { endReason == nil && !isGoingAway }

    /// Sends a request and waits for its whole answer, at most for `timeout`.
    ///
    /// An answer that comes before the body has been sent is the answer (RFC 9113 §8.1).
    /// - Throws: ``RequestFailure``, which says whether the request may have been processed.
    public func send(
        _ request: Request, timeout: Duration, isolation: isolated (any Actor)? = #isolation
    ) async throws(RequestFailure) -> Response {
        if let endReason { throw .notProcessed(.connectionLost(endReason)) }
        if isGoingAway { throw .notProcessed(.goAway) }
        return try await withUnsafeContinuation { start(request, timeout: timeout, $0) }.get()
    }

    /// Ends the connection; requests without an answer fail.
    public func close() {
        guard endReason == nil else { return }
        nghttp2_session_terminate_session(session.handle, NGHTTP2_NO_ERROR.rawValue)
        session.turnEnded()
        session.fail("closed by this side")
    }

    private func start(
        _ request: Request, timeout: Duration,
        _ continuation: UnsafeContinuation<Result<Response, RequestFailure>, Never>
    ) {
        let slot = free.popLast() ?? slots.count
        if slot == slots.count { slots.append(Slot()) }
        slots[slot].continuation = continuation
        slots[slot].started = .now
        slots[slot].deadline = slots[slot].started + timeout
        slots[slot].body = request.body
        inFlight += 1
        let stream = Session.withFields(request.headers, isFirst: !hasSent) { fields, count in
            withUnsafePointer(to: Session.bodySource(slot)) { source in
                nghttp2_submit_request(
                    session.handle, nil, fields, count, request.body.isEmpty ? nil : source, Session.pointer(slot))
            }
        }
        hasSent = true
        guard stream > 0 else {
            // Out of stream numbers: another connection has to take over.
            leave(reason: Session.reason(Int(stream)))
            return finish(slot, .failure(.notProcessed(.connectionLost(Session.reason(Int(stream))))), freeing: true)
        }
        slots[slot].stream = stream
        session.scheduleFlush()
        if !sweeping {
            sweeping = true
            sweep?.start(after: Self.deadlineResolution)
        }
    }

    private func finish(_ slot: Int, _ result: Result<Response, RequestFailure>, freeing: Bool = false) {
        if let continuation = slots[slot].continuation {
            slots[slot].continuation = nil
            inFlight -= 1
            continuation.resume(returning: result)
        }
        if freeing {
            slots[slot] = Slot()
            free.append(slot)
        }
    }

    private func failure(_ slot: Int, _ cause: RequestFailure.Cause) -> RequestFailure {
        slots[slot].isSent ? .fateUnknown(cause) : .notProcessed(cause)
    }

    private func endOverdue() {
        sweeping = inFlight > 0
        guard sweeping else { return }
        let now = MonotonicTime.now
        var isSilent = false
        for slot in slots.indices where slots[slot].continuation != nil && slots[slot].deadline <= now {
            isSilent = isSilent || (slots[slot].isSent && session.lastReceived < slots[slot].started)
            reset(slot)
            finish(slot, .failure(failure(slot, .timedOut)))
        }
        // Nothing at all since the request went out: not a slow server but a dead connection.
        if isSilent { return session.fail("the server no longer answers") }
        sweep?.start(after: Self.deadlineResolution)
    }

    private func reset(_ slot: Int) {
        guard !slots[slot].isReset else { return }
        slots[slot].isReset = true
        session.reset(slots[slot].stream, code: NGHTTP2_CANCEL.rawValue)
    }

    // MARK: SessionEvents

    func session(began stream: Int32) {}

    func session(header name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>, slot: Int) -> Bool {
        if name.first == UInt8(ascii: ":") {
            // nghttp2 has checked that this is :status with three digits.
            let status = value.reduce(0) { $0 * 10 + Int($1) - 48 }
            slots[slot].response = Response(status: status)
            return true
        }
        guard slots[slot].response.headers.bytes.count + name.count + value.count <= Self.largestResponseHeaders else {
            finish(slot, .failure(.fateUnknown(.responseTooLarge)))
            return false
        }
        slots[slot].response.headers.append(name, value)
        return true
    }

    func session(data: UnsafeBufferPointer<UInt8>, slot: Int) -> Bool {
        guard slots[slot].response.body.count + data.count <= Self.largestResponse else {
            let wasReset = slots[slot].isReset
            slots[slot].isReset = true
            finish(slot, .failure(.fateUnknown(.responseTooLarge)))
            return wasReset
        }
        slots[slot].response.body.append(contentsOf: data)
        return true
    }

    func session(endOf stream: Int32, slot: Int) {
        hasAnswered = true
        finish(slot, .success(slots[slot].response))
        // The answer came before the end of our body: nobody wants the rest.
        if slots[slot].bodySent < slots[slot].body.count { reset(slot) }
    }

    func session(sentHeadersOf slot: Int) { slots[slot].isSent = true }

    func session(closed stream: Int32, slot: Int, code: UInt32) {
        if code == NGHTTP2_REFUSED_STREAM.rawValue {
            // Also what nghttp2 itself says of streams above GOAWAY's last one (RFC 9113 §8.7).
            finish(slot, .failure(.notProcessed(isGoingAway ? .goAway : .reset(code: code))), freeing: true)
        } else {
            finish(slot, .failure(failure(slot, .reset(code: code))), freeing: true)
        }
    }

    func session(goAway lastStream: Int32, code: UInt32, debugData: [UInt8]) {
        let words = String(decoding: debugData.prefix(200), as: UTF8.self)
        leave(reason: words.isEmpty ? "GOAWAY with code \(code)" : words)
        // What still waits for a place would wait until a stream ends.
        for slot in slots.indices where slots[slot].continuation != nil && !slots[slot].isSent {
            reset(slot)
            finish(slot, .failure(.notProcessed(.goAway)))
        }
    }

    private func leave(reason: String) {
        isGoingAway = true
        owner?.connectionIsGoingAway(self, reason: reason)
    }

    func session(fill buffer: UnsafeMutableBufferPointer<UInt8>, slot: Int) -> (count: Int, isLast: Bool) {
        let start = slots[slot].bodySent
        let count = min(buffer.count, slots[slot].body.count - start)
        slots[slot].body.withUnsafeBufferPointer {
            _ = buffer.update(fromContentsOf: UnsafeBufferPointer(rebasing: $0[start..<(start + count)]))
        }
        slots[slot].bodySent += count
        return (count, slots[slot].bodySent == slots[slot].body.count)
    }

    func sessionEnded(_ reason: String) {
        guard endReason == nil else { return }
        endReason = reason
        sweep = nil
        for slot in slots.indices where slots[slot].continuation != nil {
            finish(slot, .failure(failure(slot, .connectionLost(reason))))
        }
        owner?.connectionEnded(self, reason: reason)
    }
}
