// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// The server side of one connection, without I/O and without a clock. Takes received bytes, responses and the time;
/// returns requests, bytes to send and when to close.
///
/// The session hands out one request at a time. It buffers at most ``maximumPipelined`` bytes behind an unanswered request.
package struct HTTPSession {
    /// What to do after an event, in this order.
    package struct Effects {
        /// Bytes to send.
        package var output: [UInt8] = []
        /// The request to answer with ``HTTPSession/respond(_:now:_:)``, if any; never more than one.
        package var requests: [HTTPRequest] = []
        /// The error to answer with an error response; ``closes`` is also set.
        package var fault: HTTPRequestError?
        /// Whether to close the connection after sending the output.
        package var closes = false

        package init() {}
    }

    /// Maximum bytes buffered behind an unanswered request: the size of one read, since the connection then stops
    /// reading. If more arrive, they are all dropped and the connection closes after the response.
    package static let maximumPipelined = 16 * 1024
    /// A connection with this many unsent bytes of a streamed response closes.
    package static let maximumUnsent = 64 * 1024

    private enum Phase {
        /// Waits for a request, or for the rest of one.
        case reading
        case answering
        /// The response continues until the connection ends.
        case streaming
        case over
    }

    /// What the response to the current request depends on.
    private struct ResponseContext {
        var isHead: Bool
        var minorVersion: Int
        var keepsAlive: Bool
    }

    private let limits: HTTPLimits
    private var phase = Phase.reading
    private var decoder: RequestDecoder
    private var current = ResponseContext(isHead: false, minorVersion: 1, keepsAlive: false)
    private var isLeaving = false
    /// When the first byte of the next request is due.
    private var idleDeadline: MonotonicTime
    /// When the request that has begun must be complete.
    private var requestDeadline: MonotonicTime?
    /// Bytes received behind an unanswered request, from `waitingStart` on.
    private var waiting: [UInt8] = []
    private var waitingStart = 0

    package init(limits: HTTPLimits, now: MonotonicTime) {
        self.limits = limits
        decoder = RequestDecoder(limits: limits)
        idleDeadline = now + limits.firstByteTimeout
    }

    /// When to call ``timeReached(_:_:)``, unless another event comes first; `nil` if never.
    package var deadline: MonotonicTime? { phase == .reading ? requestDeadline ?? idleDeadline : nil }

    /// Whether no request is in progress, not even a partial one.
    package var isIdle: Bool { phase == .reading && !decoder.hasBegun }

    /// Whether a request is waiting for its response: the connection must not read meanwhile.
    package var isAnswering: Bool { phase == .answering }

    // MARK: Events

    /// Processes bytes that have arrived.
    package mutating func received(_ bytes: RawSpan, now: MonotonicTime, _ effects: inout Effects) {
        switch phase {
        case .over: break
        // No request may follow a streamed response, and input must not be read without limit.
        case .streaming: close(&effects)
        case .reading: keep(bytes, from: read(bytes, now: now, &effects), &effects)
        case .answering: keep(bytes, from: 0, &effects)
        }
    }

    /// Answers the current request. Does nothing if there is none.
    package mutating func respond(_ response: HTTPResponse, now: MonotonicTime, _ effects: inout Effects) {
        guard phase == .answering else { return }
        let keepsAlive = current.keepsAlive && !isLeaving
        // By default, HTTP/1.1 connections persist and HTTP/1.0 connections close.
        let connection: StaticString? = keepsAlive ? (current.minorVersion == 0 ? "keep-alive" : nil) : "close"
        response.encode(into: &effects.output, connection: connection, isHead: current.isHead)
        guard keepsAlive else { return close(&effects) }
        phase = .reading
        idleDeadline = now + limits.idleTimeout
        // A second reference, so that the bytes can be read while the session changes; nothing is copied.
        let held = waiting
        let rest = held.span.bytes.extracting(droppingFirst: waitingStart)
        waitingStart += read(rest, now: now, &effects)
        if waitingStart == held.count { (waiting, waitingStart) = ([], 0) }
    }

    /// Starts a streamed response to the current request: this head and its body. ``send(_:unsent:_:)`` adds to it, and
    /// the end of the connection ends it. Does nothing if there is no request.
    package mutating func stream(_ head: HTTPResponse, _ effects: inout Effects) {
        guard phase == .answering else { return }
        head.encode(into: &effects.output, connection: "close", isHead: current.isHead, hasLength: false)
        guard !current.isHead, !isLeaving else { return close(&effects) }
        phase = .streaming
        (waiting, waitingStart) = ([], 0)
    }

    /// Sends the next piece of a streamed response. Does nothing if there is none.
    /// - Parameter unsent: bytes of earlier pieces that the network has not accepted; at ``maximumUnsent`` or more, the
    ///   connection closes instead.
    package mutating func send(_ bytes: [UInt8], unsent: Int, _ effects: inout Effects) {
        guard phase == .streaming else { return }
        if unsent >= Self.maximumUnsent { return close(&effects) }
        effects.output += bytes
    }

    /// Closes the connection if the deadline has passed.
    package mutating func timeReached(_ now: MonotonicTime, _ effects: inout Effects) {
        guard let deadline, now >= deadline else { return }
        // Without a request in progress, the connection closes without a response.
        if requestDeadline != nil { effects.fault = .timeout }
        close(&effects)
    }

    /// Accepts no further requests: closes at once, or after the response to the current request. A partial request
    /// fails with ``HTTPRequestError/draining``. A streamed response ends.
    package mutating func drain(_ effects: inout Effects) {
        isLeaving = true
        if phase == .reading, decoder.hasBegun { effects.fault = .draining }
        if phase == .reading || phase == .streaming { close(&effects) }
    }

    // MARK: Bytes

    /// Reads up to the end of a request.
    /// - Returns: the number of bytes read.
    private mutating func read(_ bytes: RawSpan, now: MonotonicTime, _ effects: inout Effects) -> Int {
        do throws(HTTPRequestError) {
            let taken = try decoder.append(bytes)
            if let (request, keepsAlive) = decoder.completed {
                current = ResponseContext(
                    isHead: request.method == "HEAD", minorVersion: request.minorVersion, keepsAlive: keepsAlive)
                phase = .answering
                requestDeadline = nil
                decoder = RequestDecoder(limits: limits)
                effects.requests.append(request)
                return taken
            }
            if decoder.hasBegun, requestDeadline == nil { requestDeadline = now + limits.requestTimeout }
            if decoder.takeContinue() { effects.output += "HTTP/1.1 100 Continue\r\n\r\n".utf8 }
            return taken
        } catch {
            effects.fault = error
            close(&effects)
            return bytes.byteCount
        }
    }

    /// Buffers the bytes behind an unanswered request.
    private mutating func keep(_ bytes: RawSpan, from start: Int, _ effects: inout Effects) {
        // If the connection closes after this response, the bytes are dropped.
        guard phase == .answering, start < bytes.byteCount, current.keepsAlive, !isLeaving else { return }
        guard waiting.count - waitingStart + bytes.byteCount - start <= Self.maximumPipelined else {
            current.keepsAlive = false
            (waiting, waitingStart) = ([], 0)
            return
        }
        if waitingStart > 0 {
            waiting.removeFirst(waitingStart)
            waitingStart = 0
        }
        bytes.extracting(droppingFirst: start).withUnsafeBytes { waiting += $0 }
    }

    private mutating func close(_ effects: inout Effects) {
        phase = .over
        effects.closes = true
        decoder = RequestDecoder(limits: limits)
        (waiting, waitingStart, requestDeadline) = ([], 0, nil)
    }
}
