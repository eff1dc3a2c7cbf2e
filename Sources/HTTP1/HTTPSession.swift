// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// The server's side of one connection: bytes, answers and time in; requests, bytes and the end out. No I/O and no
/// clock.
///
/// One request at a time is handed out. What is sent behind it waits here, ``mostWaiting`` bytes at most, until it is
/// answered.
package struct HTTPSession {
    /// What is to be done after an event, in this order.
    package struct Effects {
        /// Bytes to send.
        package var output: [UInt8] = []
        /// The request to answer by ``HTTPSession/respond(_:now:_:)``: one, or none.
        package var requests: [HTTPRequest] = []
        /// What is wrong with the stream: last words are due, and `ends` is set.
        package var fault: HTTPRequestError?
        /// Whether the connection is to be ended once the output is sent.
        package var ends = false

        /// Nothing to do.
        package init() {}
    }

    /// How many bytes may come while a request is being answered: as many as one read brings, as whoever reads pauses.
    /// Of more, nothing is read, and the connection ends with the answer.
    package static let mostWaiting = 16 * 1024
    /// Who has so many bytes of a stream unread, as far as this side knows, is let go.
    package static let mostUnread = 64 * 1024

    private enum Phase {
        /// Waits for a request, or for the rest of one.
        case reading
        case answering
        /// The answer goes on until the connection ends.
        case streaming
        case over
    }

    /// What the answer depends on.
    private struct Asked {
        var isHead: Bool
        var minorVersion: Int
        var keepsAlive: Bool
    }

    private let limits: HTTPLimits
    private var phase = Phase.reading
    private var decoder: RequestDecoder
    private var asked = Asked(isHead: false, minorVersion: 1, keepsAlive: false)
    private var isLeaving = false
    /// When the first byte of the next request has to come.
    private var idleDeadline: MonotonicTime
    /// When the request that has begun has to be whole.
    private var requestDeadline: MonotonicTime?
    /// What came while a request was being answered, from `waitingStart` on.
    private var waiting: [UInt8] = []
    private var waitingStart = 0

    /// A connection that has just come.
    package init(limits: HTTPLimits, now: MonotonicTime) {
        self.limits = limits
        decoder = RequestDecoder(limits: limits)
        idleDeadline = now + limits.firstTimeout
    }

    /// When ``timeReached(_:_:)`` is to be called, unless something happens before; nil: never.
    package var deadline: MonotonicTime? { phase == .reading ? requestDeadline ?? idleDeadline : nil }

    /// Whether no request is under way and none has begun.
    package var isIdle: Bool { phase == .reading && !decoder.isBegun }

    /// Whether a request was handed out and waits for its answer: nothing is to be read meanwhile.
    package var isAnswering: Bool { phase == .answering }

    // MARK: Events

    /// Bytes came.
    package mutating func received(_ bytes: RawSpan, now: MonotonicTime, _ effects: inout Effects) {
        switch phase {
        case .over: break
        // Nothing can be asked any more, and nothing without end is to be read from somebody.
        case .streaming: end(&effects)
        case .reading: keep(bytes, from: read(bytes, now: now, &effects), &effects)
        case .answering: keep(bytes, from: 0, &effects)
        }
    }

    /// The request under way has its answer. Does nothing where there is none.
    package mutating func respond(_ response: HTTPResponse, now: MonotonicTime, _ effects: inout Effects) {
        guard phase == .answering else { return }
        let keepsAlive = asked.keepsAlive && !isLeaving
        // HTTP/1.1 stays unless it is said, HTTP/1.0 goes unless it is said.
        let connection: StaticString? = keepsAlive ? (asked.minorVersion == 0 ? "keep-alive" : nil) : "close"
        response.encode(into: &effects.output, connection: connection, isHead: asked.isHead)
        guard keepsAlive else { return end(&effects) }
        phase = .reading
        idleDeadline = now + limits.idleTimeout
        // Held here too, so that it can be read while the session changes: nothing is copied.
        let held = waiting
        let rest = held.span.bytes.extracting(droppingFirst: waitingStart)
        waitingStart += read(rest, now: now, &effects)
        if waitingStart == held.count { (waiting, waitingStart) = ([], 0) }
    }

    /// The request under way is answered by a stream: this head, and what its body holds already. What follows is brought
    /// by ``send(_:unsent:_:)``, and the end of the connection ends it. Does nothing where there is no request.
    package mutating func stream(_ head: HTTPResponse, _ effects: inout Effects) {
        guard phase == .answering else { return }
        head.encode(into: &effects.output, connection: "close", isHead: asked.isHead, hasLength: false)
        guard !asked.isHead, !isLeaving else { return end(&effects) }
        phase = .streaming
        (waiting, waitingStart) = ([], 0)
    }

    /// The next piece of a stream. Does nothing where there is none.
    /// - Parameter unsent: bytes of earlier pieces that the network has not taken; from ``mostUnread`` on the connection
    ///   ends instead.
    package mutating func send(_ bytes: [UInt8], unsent: Int, _ effects: inout Effects) {
        guard phase == .streaming else { return }
        if unsent >= Self.mostUnread { return end(&effects) }
        effects.output += bytes
    }

    /// Time has passed.
    package mutating func timeReached(_ now: MonotonicTime, _ effects: inout Effects) {
        guard let deadline, now >= deadline else { return }
        // Who has asked for nothing is told nothing.
        if requestDeadline != nil { effects.fault = .timeout }
        end(&effects)
    }

    /// No further request is taken: the connection ends at once, or after the answer to the request under way. A request
    /// that has begun is told so. A stream ends.
    package mutating func leave(_ effects: inout Effects) {
        isLeaving = true
        if phase == .reading, decoder.isBegun { effects.fault = .leaving }
        if phase == .reading || phase == .streaming { end(&effects) }
    }

    // MARK: Bytes

    /// Reads up to the end of a request.
    /// - Returns: how many bytes were read.
    private mutating func read(_ bytes: RawSpan, now: MonotonicTime, _ effects: inout Effects) -> Int {
        do throws(HTTPRequestError) {
            let taken = try decoder.append(bytes)
            if let (request, keepsAlive) = decoder.whole {
                asked = Asked(
                    isHead: request.method == "HEAD", minorVersion: request.minorVersion, keepsAlive: keepsAlive)
                phase = .answering
                requestDeadline = nil
                decoder = RequestDecoder(limits: limits)
                effects.requests.append(request)
                return taken
            }
            if decoder.isBegun, requestDeadline == nil { requestDeadline = now + limits.requestTimeout }
            if decoder.takeContinue() { effects.output += "HTTP/1.1 100 Continue\r\n\r\n".utf8 }
            return taken
        } catch {
            effects.fault = error
            end(&effects)
            return bytes.byteCount
        }
    }

    /// Keeps what came behind a request that is not answered yet.
    private mutating func keep(_ bytes: RawSpan, from start: Int, _ effects: inout Effects) {
        // Where the connection ends with the answer, nothing more is read.
        guard phase == .answering, start < bytes.byteCount, asked.keepsAlive, !isLeaving else { return }
        guard waiting.count - waitingStart + bytes.byteCount - start <= Self.mostWaiting else {
            asked.keepsAlive = false
            (waiting, waitingStart) = ([], 0)
            return
        }
        if waitingStart > 0 {
            waiting.removeFirst(waitingStart)
            waitingStart = 0
        }
        bytes.extracting(droppingFirst: start).withUnsafeBytes { waiting += $0 }
    }

    private mutating func end(_ effects: inout Effects) {
        phase = .over
        effects.ends = true
        decoder = RequestDecoder(limits: limits)
        (waiting, waitingStart, requestDeadline) = ([], 0, nil)
    }
}
