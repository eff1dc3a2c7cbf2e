// SPDX-License-Identifier: Apache-2.0

import CNGHTTP2
import EventLoop
import Time

/// What an HTTP/2 client connection tells its owner; on the connection's loop.
protocol ClientConnectionOwner: AnyObject {
    /// How many streams the server takes at a time (RFC 9113 §6.5.2).
    func connection(_ connection: ClientConnection, allows streams: Int)
    /// Nothing new should be sent here: the server goes away (RFC 9113 §6.8), or answers nothing any more. What is under
    /// way may still be answered.
    func connectionIsGoingAway(_ connection: ClientConnection)
    /// The connection is over; every request on it has had its answer or failure.
    func connectionEnded(_ connection: ClientConnection, reason: String)
}

/// The client's side of one HTTP/2 connection: many requests at a time, each awaited by itself.
///
/// What is sent in one turn of the loop goes out in one write. A connection that looks open and is not is found out by
/// a ``ConnectionWatch``.
final class ClientConnection: SessionEvents {
    /// The largest body of an answer that is taken, in bytes.
    static let largestResponse = 64 * 1024
    /// The most bytes of header fields of an answer that are taken.
    static let largestResponseHeaders = 16 * 1024
    /// How often deadlines are looked at: a request may outlive its own by this much.
    private static let deadlineResolution = Duration.milliseconds(100)
    /// How often an idle connection is looked at.
    private static let idleResolution = Duration.seconds(60)

    /// Who waits for an answer.
    typealias Continuation = UnsafeContinuation<Result<Response, RequestFailure>, Never>

    private struct Slot {
        var continuation: Continuation?
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
    private var watch = ConnectionWatch(now: .now)
    private var budget = FrameBudget(now: .now)
    private var hasSent = false
    private var endReason: String?
    /// Requests without an answer.
    private(set) var inFlight = 0
    /// Whether nothing new is sent here.
    private var isGoingAway = false

    /// Speaks HTTP/2 on `stream`, which must be open. The owner is not retained.
    init(_ stream: ByteStream, owner: (any ClientConnectionOwner)?) {
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
        sweep = Timer(on: loop) { [unowned self] in sweepNow() }
    }

    /// Begins to read; what the server said first is told to the owner from here on.
    func start() {
        armSweep()
        session.stream.resumeReading()
    }

    deinit { session.stream.close() }

    /// Sends a request, whose whole answer `continuation` gets within `timeout`, or the failure that says whether the
    /// request may have been processed.
    ///
    /// An answer that comes before the body has been sent is the answer (RFC 9113 §8.1).
    func send(_ request: Request, timeout: Duration, _ continuation: Continuation) {
        if let endReason {
            continuation.resume(returning: .failure(.notProcessed(.connectionLost(endReason))))
        } else if isGoingAway {
            continuation.resume(returning: .failure(.notProcessed(.goAway)))
        } else {
            start(request, timeout: timeout, continuation)
        }
    }

    /// Sends nothing new here, and ends the connection once what is under way is answered.
    func leave() {
        isGoingAway = true
        endIfLeft()
    }

    private func endIfLeft() {
        if isGoingAway, inFlight == 0, endReason == nil { session.terminate() }
    }

    /// Ends the connection; requests without an answer fail.
    func close() {
        guard endReason == nil else { return }
        nghttp2_session_terminate_session(session.handle, NGHTTP2_NO_ERROR.rawValue)
        session.turnEnded()
        session.fail("closed by this side")
    }

    private func start(_ request: Request, timeout: Duration, _ continuation: Continuation) {
        let slot = free.popLast() ?? slots.count
        if slot == slots.count { slots.append(Slot()) }
        slots[slot].continuation = continuation
        slots[slot].started = .now
        slots[slot].deadline = slots[slot].started + timeout
        slots[slot].body = request.body
        inFlight += 1
        if inFlight == 1 { watch.becameBusy(slots[slot].started) }
        let stream = Session.withFields(request.headers, isFirst: !hasSent) { fields, count in
            withUnsafePointer(to: Session.bodySource(slot)) { source in
                nghttp2_submit_request(
                    session.handle, nil, fields, count, request.body.isEmpty ? nil : source, Session.pointer(slot))
            }
        }
        hasSent = true
        guard stream > 0 else {
            // Out of stream numbers: another connection has to take over.
            isGoingAway = true
            owner?.connectionIsGoingAway(self)
            return finish(slot, .failure(.notProcessed(.connectionLost(Session.reason(Int(stream))))), freeing: true)
        }
        slots[slot].stream = stream
        session.scheduleFlush()
        if inFlight == 1 { armSweep() }
    }

    private func armSweep() {
        sweep?.start(after: inFlight > 0 ? Self.deadlineResolution : Self.idleResolution)
    }

    private func finish(_ slot: Int, _ result: Result<Response, RequestFailure>, freeing: Bool = false) {
        if let continuation = slots[slot].continuation {
            slots[slot].continuation = nil
            inFlight -= 1
            if inFlight == 0 {
                watch.becameIdle()
                endIfLeft()
            }
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

    private func sweepNow() {
        let now = MonotonicTime.now
        if inFlight > 0 { endOverdue(now) }
        switch watch.check(now, lastReceived: session.lastReceived) {
        case .nothing: break
        case .ping: session.ping()
        case .stalled: owner?.connectionIsGoingAway(self)
        case .dead: return session.fail("the server no longer answers")
        }
        armSweep()
    }

    private func endOverdue(_ now: MonotonicTime) {
        for slot in slots.indices where slots[slot].continuation != nil && slots[slot].deadline <= now {
            reset(slot)
            finish(slot, .failure(failure(slot, .timedOut)))
        }
    }

    private func reset(_ slot: Int) {
        guard !slots[slot].isReset else { return }
        slots[slot].isReset = true
        session.reset(slots[slot].stream, code: NGHTTP2_CANCEL.rawValue)
    }

    // MARK: SessionEvents

    func session(began stream: Int32) {}

    func sessionTakesFrame() -> Bool { budget.frame(session.lastReceived) }

    func sessionTakes(bytes: Int) -> Bool { budget.bytes(bytes, session.lastReceived) }

    func session(header name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>, slot: Int) -> Bool {
        if name.first == UInt8(ascii: ":") {
            // nghttp2 has checked that this is :status with three digits.
            let status = value.reduce(0) { $0 * 10 + Int($1) - 48 }
            slots[slot].response = Response(status: status, headers: HeaderBlock(bytes: 160, fields: 4))
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
        watch.answered(session.lastReceived)
        budget.answer(bytes: slots[slot].response.body.count)
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
        isGoingAway = true
        owner?.connectionIsGoingAway(self)
        // What still waits for a place would wait until a stream ends.
        for slot in slots.indices where slots[slot].continuation != nil && !slots[slot].isSent {
            reset(slot)
            finish(slot, .failure(.notProcessed(.goAway)))
        }
        endIfLeft()
    }

    func sessionGotSettings() { owner?.connection(self, allows: session.peerStreamLimit) }

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
