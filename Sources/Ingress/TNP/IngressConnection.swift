// SPDX-License-Identifier: Apache-2.0

import Admission
import EventLoop
import TNP
import Time

/// A sender's TNP connection: performs what its ``IngressSession`` decides.
package final class IngressConnection: SenderConnection, ByteStreamHandler, TurnEndHandler {
    /// The longest pause in reading from a sender over its rate.
    private static let longestRest = Duration.seconds(1)

    /// Unread bytes of results above which the node stops reading from the sender: a few hundred results.
    private static let highWater = 16 * 1024

    /// The most bytes read in one turn of the loop, which bounds the work per turn for one connection.
    private static let largestRead = 16 * 1024

    private let stream: ByteStream
    private unowned let host: any SenderHost
    private var session: IngressSession
    private var output: [UInt8] = []
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
        session = IngressSession(rules: rules, now: .now)
        stream.highWater = Self.highWater
        stream.largestRead = Self.largestRead
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
        perform { session, effects in session.timeReached(.now, &effects) }
    }

    private func perform(_ event: (inout IngressSession, inout IngressSession.Effects) -> Void) {
        guard !isClosed else { return }
        let host = host
        let scratch = host.scratch
        // An outcome may come at once, while the submissions of the outer call are being delivered.
        var effects = scratch.effects.take() ?? IngressSession.Effects()
        if output.isEmpty { output = scratch.takeBuffer() }
        swap(&output, &effects.output)
        let deadline = Self.handle(event, in: &session, &effects)
        swap(&output, &effects.output)
        defer {
            effects.removeAll()
            scratch.effects = effects
        }
        if output.isEmpty {
            scratch.keep(&output)
        } else if !flushScheduled {
            flushScheduled = true
            stream.loop.atEndOfTurn(self)
        }
        if effects.isIdentified {
            since = .now
            host.identified(self)
        }
        // Delivers only after the output is queued: an outcome may come at once, and may close the connection.
        for (submission, app) in effects.submissions where !isClosed {
            host.deliver(submission, app: app.name, format: app.format, for: self)
        }
        for submission in effects.submissionsByHandle where !isClosed { host.deliver(submission, for: self) }
        for request in effects.handleRequests where !isClosed { host.perform(request, for: self) }
        if effects.violations > 0, !isClosed { host.countViolations(self, effects.violations) }
        if isClosed { return }
        if effects.closes {
            stop()
            flush()
            stream.finish { [self] in host.ended(self) }
        } else {
            timer?.start(until: deadline)
        }
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

    package func turnEnded() {
        flushScheduled = false
        flush()
    }

    private func flush() {
        guard !output.isEmpty else { return }
        stream.write(output)
        host.scratch.keep(&output)
        if stream.unsent > Self.highWater { timer?.outputIsUnread() }
    }

    package func streamDrained(_ stream: ByteStream) { timer?.outputWasRead() }

    // MARK: Events

    package func stream(_ stream: ByteStream, received bytes: RawSpan) {
        guard !isClosed else { return }
        let now = MonotonicTime.now
        lastRead = now
        perform { session, effects in
            session.assignCircuit(
                bytes, now: now, comesFrom: { host.assign(self, toCircuit: $0) }, welcome: host.welcome(under:),
                identify: { host.identify(self, by: $0, seed: $1) }, &effects)
        }
    }

    package func stream(_ stream: ByteStream, ended reason: StreamError) {
        guard !isClosed else { return }
        stop()
        host.ended(self)
    }

    package func isIdle(minimumAge time: Duration) -> Bool { session.isIdle && MonotonicTime.now - since >= time }

    package func finished(_ request: UInt32, _ outcome: Outcome) {
        if outcome.kind == .delivered || outcome.kind == .queued { hasSucceeded = true }
        perform { session, effects in session.finished(request, outcome, now: .now, &effects) }
    }

    package func registered(_ request: UInt32, _ handle: Handle) {
        perform { session, effects in session.registered(request, handle, now: .now, &effects) }
    }

    package func announce(_ puzzle: Puzzle) {
        hasOwnPuzzle = false
        perform { session, effects in session.announce(puzzle, &effects) }
    }

    package func refused(_ request: UInt32, _ refusal: Refusal) {
        if refusal.puzzle != nil { hasOwnPuzzle = true }
        perform { session, effects in session.refused(request, refusal, now: .now, &effects) }
    }

    package func closeIdle(_ text: String) { perform { session, effects in session.closeIdle(text, &effects) } }

    package func reject(_ goAway: GoAway) { perform { session, effects in session.reject(goAway, &effects) } }

    package func evict(_ goAway: GoAway) {
        // GOAWAY was already sent; the host is notified when the stream ends.
        guard !isClosed else { return stream.close() }
        var effects = IngressSession.Effects()
        session.reject(goAway, &effects)
        stop()
        stream.write(output + effects.output)
        stream.closeAfterWriting()
        host.ended(self)
    }

    package func pauseReading(for duration: Duration) {
        guard !isClosed, rest == nil else { return }
        stream.pauseReading()
        rest = Timer(on: stream.loop, after: min(duration, Self.longestRest)) { [unowned self] in
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
