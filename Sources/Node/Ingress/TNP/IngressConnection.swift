// SPDX-License-Identifier: Apache-2.0

import Admission
import DequeModule
import EventLoop
import TNP
import Time

/// A sender's TNP connection: performs what its ``IngressSession`` decides.
package final class IngressConnection: SenderConnection, ByteStreamHandler, TurnEndHandler {
    /// The longest pause in reading from a sender over its rate.
    private static let maximumRest = Duration.seconds(1)

    /// Unread bytes of results above which the node stops reading from the sender: a few hundred results.
    private static let highWater = 16 * 1024

    /// The most bytes read in one turn of the loop, which bounds the work per turn for one connection.
    private static let maximumRead = 16 * 1024

    private let stream: ByteStream
    private unowned let host: any SenderHost
    private let scratch: IngressScratch
    private var session: IngressSession
    private var effects = IngressSession.Effects()
    private var flushScheduled = false
    package private(set) var isClosed = false
    private var timer: ConnectionTimer?
    private var rest: Timer?
    package let number: UInt64
    package let senderProtocol = Admission.SenderProtocol.tnp
    package var circuit: CircuitID?
    package private(set) var hasSucceeded = false
    /// When HELLO arrived, or the connection began.
    private var since = MonotonicTime.now
    package private(set) var lastRead = MonotonicTime.now
    package private(set) var hasOwnPuzzle = false

    /// Serves `stream`.
    /// - Parameters:
    ///   - number: unique among the node's connections.
    ///   - rules: the limits and the apps.
    ///   - host: the node; not retained.
    package init(_ stream: ByteStream, number: UInt64, rules: IngressSession.Rules, host: any SenderHost) {
        self.stream = stream
        self.number = number
        self.host = host
        scratch = host.scratch
        session = IngressSession(rules: rules, now: .now)
        stream.highWater = Self.highWater
        stream.maximumRead = Self.maximumRead
        stream.handler = self
        timer = ConnectionTimer(on: stream.loop, readTimeout: rules.readTimeout) { [unowned self] in
            timeReached(isUnread: $0)
        }
        timer?.start(until: session.deadline)
    }

    private func timeReached(isUnread: Bool) {
        if isUnread {
            // The sender would not read a GOAWAY either.
            close()
            return host.ended(self)
        }
        perform { session, effects in session.timeReached(stream.loop.now, &effects) }
    }

    private func perform(_ event: (inout IngressSession, inout IngressSession.Effects) -> Void) {
        if !isClosed { proceed(handle(event)) }
    }

    /// What follows an event: whether the connection closes, and the session's next deadline.
    private typealias Next = (closes: Bool, deadline: MonotonicTime?)

    /// Lets the session handle an event, and queues its output.
    private func handle(_ event: (inout IngressSession, inout IngressSession.Effects) -> Void) -> Next {
        if effects.output.isEmpty { effects.output = scratch.takeBuffer() }
        // An outcome may arrive while the requests of an earlier event are passed on. It must not close the connection
        // because the earlier event will.
        effects.closes = false
        let deadline = Self.handle(event, in: &session, &effects)
        if effects.output.isEmpty {
            scratch.keep(&effects.output)
        } else if !flushScheduled {
            flushScheduled = true
            stream.loop.atEndOfTurn(self)
        }
        return (effects.closes, deadline)
    }

    /// Handles an event in place: reading a property of a stored session would copy it.
    /// - Returns: the session's next deadline.
    private static func handle(
        _ event: (inout IngressSession, inout IngressSession.Effects) -> Void, in session: inout IngressSession,
        _ effects: inout IngressSession.Effects
    ) -> MonotonicTime? {
        event(&session, &effects)
        return session.deadline
    }

    private func proceed(_ next: Next) {
        if next.closes {
            stop()
            flush()
            stream.finish { [self] in host.ended(self) }
        } else {
            timer?.start(until: next.deadline)
        }
    }

    package func turnEnded() {
        flushScheduled = false
        flush()
    }

    private func flush() {
        guard !effects.output.isEmpty else { return }
        stream.write(effects.output)
        scratch.keep(&effects.output)
        if stream.unsent > Self.highWater { timer?.outputIsUnread() }
    }

    package func streamDrained(_ stream: ByteStream) { timer?.outputWasRead() }

    // MARK: Events

    package func stream(_ stream: ByteStream, received bytes: RawSpan) {
        guard !isClosed else { return }
        let now = stream.loop.now
        lastRead = now
        var requests = scratch.requests.take() ?? IngressSession.Requests()
        let next = handle { session, effects in
            session.received(
                bytes, now: now, comesFrom: { host.assign(self, toCircuit: $0) }, welcome: host.welcome(under:),
                identify: { (key, seed) throws(ProtocolError) in try host.identify(self, by: key, seed: seed) },
                &requests, &effects)
        }
        // The requests are passed on after the output is queued: an outcome may come at once, and may close the
        // connection.
        passOn(&requests)
        requests.removeAll()
        scratch.requests = requests
        if !isClosed { proceed(next) }
    }

    private func passOn(_ requests: inout IngressSession.Requests) {
        if requests.isIdentified {
            since = stream.loop.now
            host.identified(self)
        }
        while !isClosed, let next = requests.submissions.popFirst() {
            host.deliver(next.submission, app: next.app.name, format: next.app.format, for: self)
        }
        for submission in requests.submissionsByHandle where !isClosed { host.deliver(submission, for: self) }
        for request in requests.handleRequests where !isClosed { host.perform(request, for: self) }
        if requests.violations > 0, !isClosed { host.countViolations(self, requests.violations) }
    }

    package func stream(_ stream: ByteStream, ended reason: StreamError) {
        guard !isClosed else { return }
        stop()
        host.ended(self)
    }

    package func isIdle(minimumAge time: Duration) -> Bool { session.isIdle && MonotonicTime.now - since >= time }

    package func finished(_ request: UInt32, _ outcome: Outcome) {
        if outcome.kind == .delivered || outcome.kind == .queued { hasSucceeded = true }
        perform { session, effects in session.finished(request, outcome, now: stream.loop.now, &effects) }
    }

    package func registered(_ request: UInt32, _ handle: Handle) {
        perform { session, effects in session.registered(request, handle, now: stream.loop.now, &effects) }
    }

    package func announce(_ puzzle: Puzzle) {
        hasOwnPuzzle = false
        perform { session, effects in session.announce(puzzle, &effects) }
    }

    /// Does nothing: the sender has received QUEUED, and the final RESULT follows.
    package func parked(_ request: UInt32) {}

    package func refused(_ request: UInt32, _ refusal: Refusal) {
        if refusal.puzzle != nil { hasOwnPuzzle = true }
        perform { session, effects in session.refused(request, refusal, now: stream.loop.now, &effects) }
    }

    package func closeIdle(_ text: String) { perform { session, effects in session.closeIdle(text, &effects) } }

    package func reject(_ goAway: GoAway) { perform { session, effects in session.reject(goAway, &effects) } }

    package func evict(_ goAway: GoAway) {
        // GOAWAY was already sent; the host is notified when the stream ends.
        guard !isClosed else { return stream.close() }
        session.reject(goAway, &effects)
        stop()
        flush()
        stream.closeAfterWriting()
        host.ended(self)
    }

    package func pauseReading(for duration: Duration) {
        guard !isClosed, rest == nil else { return }
        stream.pauseReading()
        rest = Timer(on: stream.loop, after: min(duration, Self.maximumRest)) { [unowned self] in
            rest = nil
            stream.resumeReading()
        }
    }

    package func shutDown(retryAfter: UInt32) {
        perform { session, effects in session.shutDown(retryAfter: retryAfter, &effects) }
    }

    package func close() {
        stop()
        stream.close()
    }

    private func stop() {
        isClosed = true
        timer = nil
        rest = nil
    }
}
