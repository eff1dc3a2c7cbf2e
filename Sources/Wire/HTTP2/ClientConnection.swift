// SPDX-License-Identifier: Apache-2.0

import CNGHTTP2
import Cryptography
import EventLoop
import Time

/// Receives the results of requests, on the loop of their connection.
package protocol ResponseReceiver: AnyObject {
    /// Called when a connection takes a request: from then on the server may have seen it, even if no response comes.
    /// - Parameter number: the number given with the request.
    func taken(_ number: UInt64)
    /// Called once for each request.
    /// - Parameters:
    ///   - number: the number given with the request.
    ///   - connection: the connection that carried the request; `nil` if none did.
    func received(_ result: Result<Response, RequestFailure>, for number: UInt64, on connection: Int?)
}

extension ResponseReceiver {
    package func taken(_ number: UInt64) {}
}

/// The client side of one HTTP/2 connection: many requests at a time.
///
/// The frames of one turn of the loop go out together at its end. A ``ConnectionWatch`` detects a connection that looks
/// open but is dead.
final class ClientConnection: SessionHandler {
    /// What the pool learns of a connection, on the connection's loop.
    enum Event {
        /// The server allows this many concurrent streams (RFC 9113 §6.5.2).
        case allows(streams: Int)
        /// The connection takes no new requests: the server is going away (RFC 9113 §6.8) or has stopped answering.
        /// Requests in flight may still be answered.
        case goingAway
        /// The connection has ended, and every request on it has completed or failed.
        case ended(reason: String)
    }

    /// Maximum size of a response body, in bytes.
    static let maximumResponse = 64 * 1024
    /// Maximum size of a response's header fields, in bytes.
    static let maximumResponseHeaders = 16 * 1024
    /// How often deadlines are checked: a request may exceed its deadline by this much.
    private static let deadlineResolution = Duration.milliseconds(100)
    /// How often an idle connection is checked.
    private static let idleResolution = Duration.seconds(60)

    private struct Slot {
        /// Receives the result; `nil` once it has.
        var receiver: (any ResponseReceiver)?
        /// The receiver's number for the request.
        var number: UInt64 = 0
        var stream: Int32 = 0
        /// The bytes of the header fields, which nghttp2 refers to until the stream closes; freed with the connection.
        var fields = UnsafeMutableBufferPointer<UInt8>(start: nil, count: 0)
        var deadline = MonotonicTime(nanoseconds: 0)
        var body: [UInt8] = []
        var bodySent = 0
        var isSent = false
        var isReset = false
        var response = Response(status: 0)

        /// Fills a free slot with a request.
        /// - Returns: the bytes of its header fields, which stay in place.
        mutating func begin(
            _ request: borrowing Request, until deadline: MonotonicTime, _ number: UInt64,
            for receiver: any ResponseReceiver
        ) -> UnsafeMutablePointer<UInt8>? {
            self.receiver = receiver
            self.number = number
            self.deadline = deadline
            body.append(copying: request.body)
            let bytes = request.headers.bytes.count
            if fields.count < bytes {
                fields.deallocate()
                fields = .allocate(capacity: max(1024, bytes))
            }
            _ = fields.update(fromContentsOf: request.headers.bytes)
            return fields.baseAddress
        }

        /// Prepares the slot for another request; keeps the memory of its buffers.
        mutating func reset() {
            body.removeAll(keepingCapacity: true)
            (bodySent, isSent, isReset) = (0, false, false)
            response.removeAll()
        }
    }

    /// The pool's number of the connection.
    let number: Int
    private unowned let owner: ConnectionPool
    private let loop: EventLoop
    private var session: Session!
    private var slots: [Slot] = []
    private var free: [Int] = []
    private var sweep: Timer?
    private var watch = ConnectionWatch(now: .now)
    private var budget = FrameBudget(now: .now)
    private var bodies = BodyQueue()
    private var hasSent = false
    private var endReason: String?
    private(set) var inFlight = 0
    /// Whether the connection accepts no new requests.
    private var isGoingAway = false

    /// Starts HTTP/2 on `stream`, which must be open. The owner is not retained.
    init(_ stream: ByteStream, number: Int, owner: ConnectionPool) {
        self.number = number
        self.owner = owner
        loop = stream.loop
        super.init()
        session = Session(
            stream, isServer: false,
            settings: [
                nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0),
                nghttp2_settings_entry(
                    settings_id: Int32(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE.rawValue),
                    value: UInt32(clamping: Self.maximumResponseHeaders)),
            ], handler: self)
        sweep = Timer(on: loop) { [unowned self] in sweepNow() }
    }

    /// Starts reading. The owner receives events from now on, including events for bytes that have already arrived.
    func start() {
        armSweep()
        session.stream.resumeReading()
    }

    deinit {
        session.stream.close()
        for slot in slots { slot.fields.deallocate() }
    }

    /// Sends a request. By `deadline`, the pool's `completed` passes on the complete response, or a failure that says
    /// whether the request may have been processed.
    ///
    /// A response that arrives before the request body has been sent is final (RFC 9113 §8.1).
    func send(
        _ request: borrowing Request, at now: MonotonicTime, deadline: MonotonicTime, number: UInt64,
        for receiver: any ResponseReceiver
    ) {
        if let endReason {
            owner.completed(
                .failure(.notProcessed(.connectionLost(endReason))), number, for: receiver, on: self)
        } else if isGoingAway {
            owner.completed(.failure(.notProcessed(.goAway)), number, for: receiver, on: self)
        } else {
            start(request, now, deadline, number, receiver)
        }
    }

    /// Accepts no new requests, and closes once those in flight are answered.
    func drain() {
        isGoingAway = true
        endIfLeft()
    }

    private func endIfLeft() {
        if isGoingAway, inFlight == 0, endReason == nil { session.terminate() }
    }

    /// Closes the connection; requests without a response fail. Within a call of a ``ResponseReceiver``, the connection
    /// closes soon after.
    func close() {
        if endReason == nil { session.close() }
    }

    private func start(
        _ request: borrowing Request, _ now: MonotonicTime, _ deadline: MonotonicTime, _ number: UInt64,
        _ receiver: any ResponseReceiver
    ) {
        let slot = free.popLast() ?? slots.count
        if slot == slots.count { slots.append(Slot()) }
        let bytes = slots[slot].begin(request, until: deadline, number, for: receiver)
        inFlight += 1
        if inFlight == 1 { watch.becameBusy(now) }
        // The closure must not capture the request: that would copy it.
        let (handle, hasBody) = (session.handle, !request.body.isEmpty)
        let stream = Session.withFields(request.headers, at: bytes, isFirst: !hasSent) { fields, count in
            withUnsafePointer(to: Session.bodySource(slot)) { source in
                nghttp2_submit_request(handle, nil, fields, count, hasBody ? source : nil, Session.pointer(slot))
            }
        }
        hasSent = true
        guard stream > 0 else {
            // Out of stream identifiers: another connection has to take over.
            isGoingAway = true
            owner.handle(.goingAway, of: self)
            return finish(
                slot, .failure(.notProcessed(.connectionLost(Session.reason(Int(clamping: stream))))), freeing: true)
        }
        slots[slot].stream = stream
        receiver.taken(number)
        session.scheduleFlush()
        if inFlight == 1 { armSweep() }
    }

    private func armSweep() {
        sweep?.start(after: inFlight > 0 ? Self.deadlineResolution : Self.idleResolution)
    }

    private func finish(_ slot: Int, _ result: Result<Response, RequestFailure>, freeing: Bool = false) {
        let (receiver, number) = (slots[slot].receiver.take(), slots[slot].number)
        if freeing {
            slots[slot].reset()
            free.append(slot)
        }
        guard let receiver else { return }
        inFlight -= 1
        if inFlight == 0 {
            watch.becameIdle()
            endIfLeft()
        }
        owner.completed(result, number, for: receiver, on: self)
    }

    private func failure(_ slot: Int, _ cause: RequestFailure.Cause) -> RequestFailure {
        slots[slot].isSent ? .outcomeUnknown(cause) : .notProcessed(cause)
    }

    private func sweepNow() {
        let now = MonotonicTime.now
        if inFlight > 0 { endOverdue(now) }
        startBodies(now)
        switch watch.check(now, lastReceived: session.lastReceived) {
        case .nothing: break
        case .ping: session.ping()
        case .stalled: owner.handle(.goingAway, of: self)
        // The requests fail with `connectionLost`; their senders may send them again.
        case .dead: return session.abort("the server stopped responding")
        }
        armSweep()
    }

    private func endOverdue(_ now: MonotonicTime) {
        for slot in slots.indices where slots[slot].receiver != nil && slots[slot].deadline <= now {
            reset(slot)
            finish(slot, .failure(failure(slot, .timedOut)))
        }
    }

    private func reset(_ slot: Int) {
        guard !slots[slot].isReset else { return }
        slots[slot].isReset = true
        session.reset(slots[slot].stream, code: NGHTTP2_CANCEL.rawValue)
    }

    // MARK: Events of the session

    override func sessionShouldAcceptFrame() -> Bool { budget.frame(session.lastReceived) }

    override func sessionShouldAccept(bytes: Int) -> Bool { budget.bytes(bytes, session.lastReceived) }

    override func session(header name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>, slot: Int) -> Bool
    {
        if name.first == UInt8(ascii: ":") {
            // nghttp2 has checked that this is :status with three digits.
            let status = value.reduce(0) { $0 * 10 + Int(clamping: $1) - 48 }
            slots[slot].response.removeAll()
            slots[slot].response.status = status
            return true
        }
        guard slots[slot].response.headers.bytes.count + name.count + value.count <= Self.maximumResponseHeaders else {
            finish(slot, .failure(.outcomeUnknown(.responseTooLarge)))
            return false
        }
        slots[slot].response.headers.append(name, value)
        return true
    }

    override func session(data: UnsafeBufferPointer<UInt8>, slot: Int) -> Bool {
        guard slots[slot].response.body.count + data.count <= Self.maximumResponse else {
            let wasReset = slots[slot].isReset
            slots[slot].isReset = true
            finish(slot, .failure(.outcomeUnknown(.responseTooLarge)))
            return wasReset
        }
        slots[slot].response.body.append(copying: UnsafeRawBufferPointer(data))
        return true
    }

    override func session(endOf stream: Int32, slot: Int) {
        watch.responseCompleted(session.lastReceived)
        budget.responseCompleted(bytes: slots[slot].response.body.count)
        // The response ended before the request body: cancel the rest.
        if slots[slot].bodySent < slots[slot].body.count { reset(slot) }
        // The response is swapped out of the slot and back, not copied: the next one reuses its memory.
        var response = Response(status: 0)
        swap(&response, &slots[slot].response)
        finish(slot, .success(response))
        swap(&response, &slots[slot].response)
    }

    override func session(sentHeadersOf slot: Int) { slots[slot].isSent = true }

    override func session(closed stream: Int32, slot: Int, code: UInt32) {
        if !bodies.isEmpty {
            bodies.remove(stream)
            startBodies(loop.now)
        }
        if code == NGHTTP2_REFUSED_STREAM.rawValue {
            // nghttp2 also reports this for streams above the last one of GOAWAY (RFC 9113 §8.7).
            finish(slot, .failure(.notProcessed(isGoingAway ? .goAway : .reset(code: code))), freeing: true)
        } else {
            finish(slot, .failure(failure(slot, .reset(code: code))), freeing: true)
        }
    }

    override func session(goAway lastStream: Int32, code: UInt32, debugData: [UInt8]) {
        isGoingAway = true
        owner.handle(.goingAway, of: self)
        // Requests that nghttp2 still queues would have to wait until a stream ends.
        for slot in slots.indices where slots[slot].receiver != nil && !slots[slot].isSent {
            reset(slot)
            finish(slot, .failure(.notProcessed(.goAway)))
        }
        endIfLeft()
    }

    override func sessionGotSettings() { owner.handle(.allows(streams: session.peerStreamLimit), of: self) }

    override func sessionWindowGrew() { startBodies(loop.now) }

    private func startBodies(_ now: MonotonicTime) {
        guard !bodies.isEmpty else { return }
        for stream in bodies.next(window: session.remoteWindow, now: now) { session.resume(stream) }
    }

    override func session(fill buffer: UnsafeMutableBufferPointer<UInt8>, slot: Int) -> (count: Int, isLast: Bool)? {
        let start = slots[slot].bodySent
        // Usually the whole body fits, and no other body waits.
        if start == 0, buffer.count < slots[slot].body.count || !bodies.isEmpty {
            guard
                bodies.mayStart(
                    slots[slot].stream, size: slots[slot].body.count, window: session.remoteWindow, now: loop.now)
            else { return nil }
        }
        let count = min(buffer.count, slots[slot].body.count - start)
        slots[slot].body.withUnsafeBufferPointer {
            _ = buffer.update(fromContentsOf: UnsafeBufferPointer(rebasing: $0[start..<(start + count)]))
        }
        slots[slot].bodySent += count
        return (count, slots[slot].bodySent == slots[slot].body.count)
    }

    override func sessionEnded(_ reason: String) {
        guard endReason == nil else { return }
        endReason = reason
        sweep = nil
        // The owner has to know of the end before the receivers do: they may send their requests again at once.
        var failed: [(receiver: any ResponseReceiver, number: UInt64, failure: RequestFailure)] = []
        for slot in slots.indices {
            guard let receiver = slots[slot].receiver.take() else { continue }
            failed.append((receiver, slots[slot].number, failure(slot, .connectionLost(reason))))
        }
        inFlight = 0
        let owner = owner
        // The owner releases the connection.
        withExtendedLifetime(self) {
            owner.handle(.ended(reason: reason), of: self)
            for (receiver, number, failure) in failed {
                owner.completed(.failure(failure), number, for: receiver, on: self)
            }
        }
    }
}
