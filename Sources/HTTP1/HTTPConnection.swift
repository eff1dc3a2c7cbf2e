// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// One client's connection: performs what its ``HTTPSession`` decides. Lives on its stream's loop.
package final class HTTPConnection: ByteStreamHandler, TurnEndHandler {
    /// Who answers; not retained, and has to live until it hears of the connection's end or closes it.
    package protocol Host: AnyObject {
        /// Answers a request by ``HTTPConnection/respond(_:)``, at once or later; the next one comes after that.
        func handle(_ request: HTTPRequest, on connection: HTTPConnection)
        /// What a client is told whose stream is at fault: whole bytes, usually those of
        /// ``HTTPResponse/encoded(keepsAlive:)``.
        func farewell(for fault: HTTPRequestError, on connection: HTTPConnection) -> [UInt8]
        /// The connection has ended, whatever the reason. Comes once, and not after ``HTTPConnection/close()``.
        func ended(_ connection: HTTPConnection)
    }

    /// What became of the bytes before the first request.
    package enum Prelude {
        /// All were taken, and more are needed.
        case more
        /// So many of the last ones belong to it; HTTP begins behind them.
        case done(taken: Int)
        /// The connection ends with these words.
        case refused(farewell: [UInt8])
    }

    /// Bytes of answers that may lie unread before the next request is answered.
    private static let mostUnread = 16 * 1024
    /// Requests that one turn of the loop hands out: a client that sends many small ones at once must not delay others.
    static let requestsPerTurn = 8
    /// Bytes that one turn reads.
    private static let largestRead = 16 * 1024

    private let stream: ByteStream
    private unowned let host: any Host
    private let readTimeout: Duration
    private var session: HTTPSession
    private var prelude: ((RawSpan) -> Prelude)?
    private var output: [UInt8] = []
    private var flushScheduled = false
    /// The request that the host has not been told of yet.
    private var next: HTTPRequest?
    private var isHandling = false
    /// Requests handed out in the turn of this number.
    private var handedOut: (turn: UInt64, count: Int) = (0, 0)
    private var nextTurn: Timer?
    private var isPaused = false
    private var timer: Timer?
    /// Since when an answer lies unread.
    private var unreadSince: MonotonicTime?
    private var hostListens = true
    /// Whether nothing more can be said here. What was said may still be on its way.
    package private(set) var isOver = false

    /// Serves `stream`, from what has already come on it on.
    /// - Parameter prelude: is shown the first bytes, read by read, until it says that it is done.
    package init(
        _ stream: ByteStream, limits: HTTPLimits, host: any Host, prelude: ((RawSpan) -> Prelude)? = nil
    ) {
        self.stream = stream
        self.host = host
        self.prelude = prelude
        readTimeout = limits.readTimeout
        session = HTTPSession(limits: limits, now: .now)
        // Nothing is read until all that was written has gone out: then a client that has closed its own side gets
        // all of its answer before the end of its stream is noticed.
        stream.highWater = 0
        stream.largestRead = Self.largestRead
        stream.handler = self
        timer = Timer(on: stream.loop) { [unowned self] in timeReached() }
        armTimer()
    }

    /// Whether no request is under way and none has begun.
    package var isIdle: Bool { session.isIdle }

    // MARK: What the host says

    /// Answers the request under way. Does nothing where there is none any more.
    package func respond(_ response: HTTPResponse) {
        // Before the host has been told of it, it cannot answer it.
        guard next == nil else { return }
        let now = MonotonicTime.now
        perform { session, effects in session.respond(response, now: now, &effects) }
    }

    /// Answers the request under way by a stream: this head, what its body holds already, then what ``send(_:)`` brings,
    /// until the connection ends. Does nothing where there is no request any more.
    package func stream(_ head: HTTPResponse) {
        guard next == nil else { return }
        perform { session, effects in session.stream(head, &effects) }
    }

    /// Sends the next piece of a stream. A client that has ``HTTPSession/mostUnread`` bytes of it unread is let go
    /// instead, as is one for which nothing could be sent for the read timeout.
    package func send(_ bytes: [UInt8]) {
        let unsent = output.count + stream.unsent
        perform { session, effects in session.send(bytes, unsent: unsent, &effects) }
    }

    /// Takes no further request: ends at once, or after the answer to the request under way. Ends a
    /// stream.
    package func leave() { perform { session, effects in session.leave(&effects) } }

    /// Says last words and ends; an answer that is due is not waited for.
    package func reject(_ farewell: [UInt8]) {
        guard !isOver else { return }
        output += farewell
        end()
    }

    /// Says last words, unless the connection is over, and ends it at once, without waiting for the client. The host hears
    /// nothing more of it.
    package func evict(_ farewell: [UInt8]) {
        hostListens = false
        guard !isOver else { return stream.close() }
        stop()
        stream.write(output + farewell)
        stream.closeAfterWriting()
    }

    /// Ends the connection at once. The host hears nothing more of it.
    package func close() {
        stop()
        hostListens = false
        stream.close()
    }

    // MARK: Performing

    private func perform(_ event: (inout HTTPSession, inout HTTPSession.Effects) -> Void) {
        guard !isOver else { return }
        let before = deadline
        var effects = HTTPSession.Effects()
        event(&session, &effects)
        write(&effects.output)
        if let request = effects.requests.first { next = request }
        if let fault = effects.fault {
            output += host.farewell(for: fault, on: self)
            if isOver { return }
        }
        if effects.ends { return end() }
        if session.isAnswering, !isPaused {
            isPaused = true
            stream.pauseReading()
        }
        handOut()
        if !isOver, let deadline, before.map({ deadline < $0 }) ?? true { armTimer() }
    }

    private func write(_ bytes: inout [UInt8]) {
        guard !bytes.isEmpty else { return }
        if output.isEmpty { swap(&output, &bytes) } else { output += bytes }
        if !flushScheduled {
            flushScheduled = true
            stream.loop.atEndOfTurn(self)
        }
    }

    /// Tells the host of the next request, unless answers to earlier ones lie unread. Where the host answers at once,
    /// the one after it comes from here, too, and not from within the answer.
    private func handOut() {
        guard !isHandling else { return }
        isHandling = true
        defer { isHandling = false }
        while !isOver, output.count + stream.unsent <= Self.mostUnread, let request = next {
            guard countRequest() else { return }
            next = nil
            host.handle(request, on: self)
        }
    }

    /// - Returns: false where this turn has handed out as many as it may; the next turn goes on.
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
        guard !isOver else { return }
        flush()
        if isPaused, !session.isAnswering {
            isPaused = false
            stream.resumeReading()
        }
    }

    private func flush() {
        guard !output.isEmpty else { return }
        stream.write(output)
        output = []
        if unreadSince == nil {
            unreadSince = .now
            armTimer()
        }
    }

    private func end() {
        stop()
        flush()
        stream.finish { [self] in
            if hostListens { host.ended(self) }
        }
    }

    private func stop() {
        isOver = true
        timer = nil
        nextTurn = nil
        next = nil
        prelude = nil
    }

    // MARK: Time

    private var deadline: MonotonicTime? {
        [session.deadline, unreadSince.map { $0 + readTimeout }].compactMap(\.self).min()
    }

    private func armTimer() {
        // The deadline may move while the timer runs: it is looked at again when the timer fires.
        if let deadline { timer?.start(after: deadline - .now + .milliseconds(1)) }
    }

    private func timeReached() {
        let now = MonotonicTime.now
        if let unreadSince, now - unreadSince >= readTimeout {
            // Nothing that is said now would be read.
            close()
            return host.ended(self)
        }
        perform { session, effects in session.timeReached(now, &effects) }
        if !isOver { armTimer() }
    }

    // MARK: The stream

    package func stream(_ stream: ByteStream, received bytes: RawSpan) {
        guard !isOver else { return }
        guard let prelude else { return read(bytes) }
        switch prelude(bytes) {
        case .more: break
        case .done(let taken):
            self.prelude = nil
            read(bytes.extracting(droppingFirst: taken))
        case .refused(let farewell): reject(farewell)
        }
    }

    private func read(_ bytes: RawSpan) {
        let now = MonotonicTime.now
        if !bytes.isEmpty { perform { session, effects in session.received(bytes, now: now, &effects) } }
    }

    package func streamDrained(_ stream: ByteStream) {
        unreadSince = nil
        if !isOver { handOut() }
    }

    package func stream(_ stream: ByteStream, ended reason: StreamError) {
        guard !isOver else { return }
        stop()
        host.ended(self)
    }
}
