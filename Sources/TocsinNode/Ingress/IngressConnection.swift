import EventLoop
import TNP

/// One sender's connection: performs what its ``IngressSession`` decides.
final class IngressConnection: ByteStreamHandler, TurnEndHandler {
    /// What the connection needs of the node.
    protocol Host: AnyObject {
        func welcome() -> Welcome
        /// Delivers a submission; its outcome comes back by ``IngressConnection/finished(_:_:)``.
        func deliver(
            _ submission: Submission, app: String, format: EnvelopeFormat, for connection: IngressConnection)
        func ended(_ connection: IngressConnection)
    }

    /// Bytes of results that a sender may leave unread before it is no longer read from: a few hundred results.
    private static let highWater = 16 * 1024

    private let stream: ByteStream
    private unowned let host: any Host
    private var session: IngressSession
    private var output: [UInt8] = []
    private var flushScheduled = false
    /// Whether nothing more can be said here.
    private(set) var isOver = false
    private var timer: Timer?

    init(_ stream: ByteStream, rules: IngressSession.Rules, host: any Host) {
        self.stream = stream
        self.host = host
        session = IngressSession(rules: rules, now: .now)
        stream.highWater = Self.highWater
        stream.handler = self
        timer = Timer(on: stream.loop) { [unowned self] in
            perform { session, effects in session.timeReached(.now, &effects) }
            if !isOver { armTimer() }
        }
        armTimer()
    }

    private func armTimer() {
        // The deadline may move while the timer runs: it is looked at again when the timer fires.
        if let deadline = session.deadline { timer?.start(after: deadline - .now + .milliseconds(1)) }
    }

    private func perform(_ event: (inout IngressSession, inout IngressSession.Effects) -> Void) {
        guard !isOver else { return }
        let hadDeadline = session.deadline != nil
        var effects = IngressSession.Effects()
        event(&session, &effects)
        if !effects.output.isEmpty {
            if output.isEmpty { swap(&output, &effects.output) } else { output += effects.output }
            if !flushScheduled {
                flushScheduled = true
                stream.loop.atEndOfTurn(self)
            }
        }
        // After the output, as some have their outcome at once; which may be the last, too.
        for (submission, app) in effects.submissions {
            host.deliver(submission, app: app.name, format: app.format, for: self)
        }
        if isOver { return }
        if effects.ends {
            isOver = true
            flush()
            timer = nil
            stream.finish { [self] in host.ended(self) }
        } else if !hadDeadline {
            armTimer()
        }
    }

    func turnEnded() {
        flushScheduled = false
        flush()
    }

    private func flush() {
        guard !output.isEmpty else { return }
        stream.write(output)
        output.removeAll(keepingCapacity: output.capacity <= 16 * 1024)
    }

    // MARK: Events

    func stream(_ stream: ByteStream, received bytes: RawSpan) {
        guard !isOver else { return }
        let now = MonotonicTime.now
        perform { session, effects in session.received(bytes, now: now, welcome: host.welcome, &effects) }
    }

    func stream(_ stream: ByteStream, ended reason: StreamError) {
        guard !isOver else { return }
        isOver = true
        timer = nil
        host.ended(self)
    }

    func finished(_ request: UInt32, _ outcome: Outcome) {
        perform { session, effects in session.finished(request, outcome, now: .now, &effects) }
    }

    func announce(_ puzzle: Puzzle) { perform { session, effects in session.announce(puzzle, &effects) } }

    func refuse(retryAfter: UInt32) { perform { session, effects in session.refuse(retryAfter: retryAfter, &effects) } }

    func shutDown(retryAfter: UInt32) {
        perform { session, effects in session.shutDown(retryAfter: retryAfter, &effects) }
    }

    /// Ends the connection at once.
    func close() {
        isOver = true
        timer = nil
        stream.close()
    }
}
