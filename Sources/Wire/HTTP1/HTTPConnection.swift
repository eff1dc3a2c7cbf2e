// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// One client connection: performs what its ``HTTPSession`` decides. Runs on the stream's loop.
package final class HTTPConnection: ByteStreamHandler, TurnEndHandler {
    /// Answers the requests of a connection. Not retained: it must live until it receives ``closed(_:)`` or closes the
    /// connection.
    package protocol Delegate: AnyObject {
        /// Answers a request with ``HTTPConnection/respond(_:)``, at once or later. The next request follows the
        /// response.
        func handle(_ request: HTTPRequest, on connection: HTTPConnection)
        /// The error response to an invalid request stream: complete bytes, usually from
        /// ``HTTPResponse/encoded(keepsAlive:)``.
        func errorResponse(for fault: HTTPRequestError, on connection: HTTPConnection) -> [UInt8]
        /// The connection has ended, for any reason. Called once, and not after ``HTTPConnection/close()`` or
        /// ``HTTPConnection/evict(_:)``.
        func closed(_ connection: HTTPConnection)
    }

    /// The result of reading bytes before the first request.
    package enum PreludeResult {
        /// All bytes were consumed, and more are needed.
        case more
        /// The prelude is complete. The first `taken` of the latest bytes belong to it; HTTP starts after them.
        case done(taken: Int)
        /// The prelude is rejected: the connection sends `response` and closes.
        case refused(response: [UInt8])
    }

    /// Maximum unsent response bytes; above it, the delegate does not receive the next request.
    private static let maximumUnsent = 16 * 1024
    /// Maximum requests that the delegate receives per turn of the loop: a client that sends many small requests must
    /// not delay other clients.
    static let requestsPerTurn = 8
    /// Maximum bytes read per turn of the loop.
    private static let maximumRead = 16 * 1024

    private let stream: ByteStream
    private unowned let host: any Delegate
    private var session: HTTPSession
    private var prelude: ((RawSpan) -> PreludeResult)?
    private var output: [UInt8] = []
    private var flushScheduled = false
    /// A complete request that the delegate has not received yet.
    private var next: HTTPRequest?
    private var isHandling = false
    /// The turn of the loop in which the delegate last received requests, and their number.
    private var handedOut: (turn: UInt64, count: Int) = (0, 0)
    private var nextTurn: Timer?
    private var isPaused = false
    private var timer: ConnectionTimer?
    private var hostIsListening = true
    /// Whether the connection accepts no more output. Earlier output may still be in flight.
    package private(set) var isClosed = false

    /// Becomes the handler of `stream` and serves it.
    /// - Parameter prelude: receives the first bytes, read by read, until it returns `done`.
    package init(
        _ stream: ByteStream, limits: HTTPLimits, host: any Delegate, prelude: ((RawSpan) -> PreludeResult)? = nil
    ) {
        self.stream = stream
        self.host = host
        self.prelude = prelude
        session = HTTPSession(limits: limits, now: .now)
        // Reading stops while any output is unsent: a client that has closed its own side then gets its whole response
        // before the stream reports the end.
        stream.highWater = 0
        stream.maximumRead = Self.maximumRead
        stream.handler = self
        timer = ConnectionTimer(on: stream.loop, readTimeout: limits.readTimeout) { [unowned self] in
            timeReached(isUnread: $0)
        }
        timer?.start(until: session.deadline)
    }

    /// Whether no request is in progress, not even a partial one.
    package var isIdle: Bool { session.isIdle }

    // MARK: Calls by the delegate

    /// Answers the current request. Does nothing if there is none.
    package func respond(_ response: HTTPResponse) {
        // The delegate cannot answer a request that it has not received.
        guard next == nil else { return }
        let now = MonotonicTime.now
        perform { session, effects in session.respond(response, now: now, &effects) }
    }

    /// Starts a streamed response to the current request: sends this head and its body, then what ``send(_:)`` adds,
    /// until the connection ends. Does nothing if there is no request.
    package func stream(_ head: HTTPResponse) {
        guard next == nil else { return }
        perform { session, effects in session.stream(head, &effects) }
    }

    /// Sends the next piece of a streamed response. Closes the connection instead if at least ``HTTPSession/maximumUnsent``
    /// bytes are unsent. The connection also closes if output stays unsent for the read timeout.
    package func send(_ bytes: [UInt8]) {
        let unsent = output.count + stream.unsent
        perform { session, effects in session.send(bytes, unsent: unsent, &effects) }
    }

    /// Accepts no further requests: closes at once, or after the response to the current request. Ends a streamed
    /// response.
    package func drain() { perform { session, effects in session.drain(&effects) } }

    /// Sends `farewell` and closes, without waiting for a pending response.
    package func reject(_ farewell: [UInt8]) {
        guard !isClosed else { return }
        output += farewell
        finish()
    }

    /// Sends `farewell` unless the connection has ended, and closes at once, without waiting for the client. The
    /// delegate receives no further events.
    package func evict(_ farewell: [UInt8]) {
        hostIsListening = false
        guard !isClosed else { return stream.close() }
        stop()
        stream.write(output + farewell)
        stream.closeAfterWriting()
    }

    /// Closes the connection at once. The delegate receives no further events.
    package func close() {
        stop()
        hostIsListening = false
        stream.close()
    }

    // MARK: Performing

    private func perform(_ event: (inout HTTPSession, inout HTTPSession.Effects) -> Void) {
        guard !isClosed else { return }
        var effects = HTTPSession.Effects()
        event(&session, &effects)
        write(&effects.output)
        if let request = effects.requests.first { next = request }
        if let fault = effects.fault {
            output += host.errorResponse(for: fault, on: self)
            if isClosed { return }
        }
        if effects.closes { return finish() }
        if session.isAnswering, !isPaused {
            isPaused = true
            stream.pauseReading()
        }
        handOut()
        timer?.start(until: session.deadline)
    }

    private func write(_ bytes: inout [UInt8]) {
        guard !bytes.isEmpty else { return }
        if output.isEmpty { swap(&output, &bytes) } else { output += bytes }
        if !flushScheduled {
            flushScheduled = true
            stream.loop.atEndOfTurn(self)
        }
    }

    /// Hands the next request to the delegate, unless too much output is unsent. If the delegate answers at once, this
    /// loop hands out the following request, not the nested call.
    private func handOut() {
        guard !isHandling else { return }
        isHandling = true
        defer { isHandling = false }
        while !isClosed, output.count + stream.unsent <= Self.maximumUnsent, let request = next {
            guard countRequest() else { return }
            next = nil
            host.handle(request, on: self)
        }
    }

    /// - Returns: `false` if the delegate has received ``requestsPerTurn`` requests in this turn; handing out then
    ///   continues in the next turn.
    private func countRequest() -> Bool {
        if handedOut.turn != stream.loop.turn { handedOut = (stream.loop.turn, 0) }
        guard handedOut.count < Self.requestsPerTurn else {
            let timer = nextTurn ?? Timer(on: stream.loop) { [unowned self] in handOut() }
            timer.start(after: .zero)
            nextTurn = timer
            return false
        }
        handedOut.count += 1
        return true
    }

    package func turnEnded() {
        flushScheduled = false
        guard !isClosed else { return }
        flush()
        if isPaused, !session.isAnswering {
            isPaused = false
            stream.resumeReading()
        }
        handOut()
    }

    private func flush() {
        guard !output.isEmpty else { return }
        stream.write(output)
        output = []
        if stream.unsent > 0 { timer?.outputIsUnread() }
    }

    private func finish() {
        stop()
        flush()
        stream.finish { [self] in
            if hostIsListening { host.closed(self) }
        }
    }

    private func stop() {
        isClosed = true
        timer = nil
        nextTurn = nil
        next = nil
        prelude = nil
    }

    // MARK: Time

    private func timeReached(isUnread: Bool) {
        if isUnread {
            // The client is not reading, so it would not receive an error response.
            close()
            return host.closed(self)
        }
        perform { session, effects in session.timeReached(.now, &effects) }
    }

    // MARK: The stream

    package func stream(_ stream: ByteStream, received bytes: RawSpan) {
        guard !isClosed else { return }
        guard let prelude else { return read(bytes) }
        switch prelude(bytes) {
        case .more: break
        case .done(let taken):
            self.prelude = nil
            read(bytes.extracting(droppingFirst: taken))
        case .refused(let errorResponse): reject(errorResponse)
        }
    }

    private func read(_ bytes: RawSpan) {
        let now = MonotonicTime.now
        if !bytes.isEmpty { perform { session, effects in session.received(bytes, now: now, &effects) } }
    }

    package func streamDrained(_ stream: ByteStream) {
        timer?.outputWasRead()
        if !isClosed { handOut() }
    }

    package func stream(_ stream: ByteStream, ended reason: StreamError) {
        guard !isClosed else { return }
        stop()
        host.closed(self)
    }
}
