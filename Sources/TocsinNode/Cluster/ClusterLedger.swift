// SPDX-License-Identifier: Apache-2.0

import Admission
import Cluster
import Cryptography
import Delivery
import DequeModule
import EventLoop
import Redis
import TNP
import Tables
import Time

/// Asks the engine of the cluster, before the first attempt of each envelope, whether the nodes together admit it and
/// whether this node delivers it; and tells the engine its outcome. Without the engine, or while it is slow, the node
/// decides alone.
final class ClusterLedger: EnvelopeClaims, RedisReceiver {

    /// For how long after its loss the engine may return before the node delivers alone what it has stored: another node
    /// may have taken that over.
    private static let longestWait = Duration.seconds(60)

    private struct Question {
        /// The number of the envelope.
        let number: UInt64
        let digest: Digest256
        let keys: EnvelopeKeys
        /// `nil` for an envelope that the nodes have admitted before.
        let submission: (reply: Reply, terms: Admission.Terms)?
        /// What the node has decided alone, while the engine's answer is still to come.
        var decidedAlone: ClaimResult?
    }

    private let engine: Engine
    private unowned let dispatch: Dispatch
    unowned var intake: Intake?
    private let window: Duration
    /// The number of nodes in the cluster.
    let nodes: Int
    /// The settings of all nodes together.
    var settings: AdmissionSettings {
        didSet { limits = (SharedLimits(settings, for: .tnp), SharedLimits(settings, for: .http)) }
    }
    private var limits: (tnp: SharedLimits, http: SharedLimits)
    private var questions = Slab<Question>()
    /// The questions and when they have waited for too long, in this order. Some are answered.
    private var deadlines: Deque<(question: Slab<Question>.Handle, at: MonotonicTime)> = []
    private var timer: Timer?
    private let outbox: EngineOutbox
    /// The stored envelopes of all nodes.
    let spool: ClusterSpool

    /// - Parameters:
    ///   - nodes: the number of nodes in the cluster.
    ///   - window: how long an outcome is remembered.
    init(
        _ engine: Engine, _ outbox: EngineOutbox, for dispatch: Dispatch, _ settings: AdmissionSettings, nodes: Int,
        window: Duration,
        on loop: EventLoop
    ) {
        self.engine = engine
        self.dispatch = dispatch
        self.settings = settings
        self.nodes = nodes
        self.window = window
        self.outbox = outbox
        spool = ClusterSpool(engine, outbox, for: dispatch)
        limits = (SharedLimits(settings, for: .tnp), SharedLimits(settings, for: .http))
        timer = Timer(on: loop) { [unowned self] in deadlineReached() }
    }

    private func limits(_ senderProtocol: Admission.SenderProtocol) -> SharedLimits {
        senderProtocol == .http ? limits.http : limits.tnp
    }

    /// Tells the engine what it has not received, and takes over what ended nodes have stored. Call this once a second.
    func secondPassed() {
        guard engine.status.isAvailable else { return }
        outbox.sendAll()
        spool.secondPassed()
    }

    /// Learns whether the engine can be used.
    func engineChanged(isAvailable: Bool) {
        // Before any new claim: an old outcome must not end a claim that is newer.
        if isAvailable { outbox.sendAll() }
        intake?.nodesDecide(alone: !isAvailable)
    }

    // MARK: Before the first attempt

    func claim(_ number: UInt64, _ envelope: Envelope, app: String, for reply: Reply?) {
        guard let intake else { return }
        let now = intake.reading
        let terms = reply.flatMap { intake.terms(of: $0) }
        let token = terms?.token ?? intake.admission.name(of: envelope, app: app)
        let keys = EnvelopeKeys(
            envelope, token: token, app: app, through: terms?.senderProtocol ?? .tnp, in: engine.names)
        let question = Question(
            number: number, digest: envelope.digest, keys: keys,
            submission: reply.flatMap { reply in terms.map { (reply, $0) } })
        // Nobody waits for a stored envelope: a slow engine has all the time that a connection allows.
        guard terms == nil ? engine.status.isAvailable : engine.isAsked else {
            return dispatch.claimed(number, decideAlone(question))
        }
        intake.nodesDecide(alone: false)
        let command: RedisCommand
        if let terms {
            command = engine.claims.take(
                keys, content: engine.names.hash(of: Array(envelope.ciphertext), as: .pair), ttl: envelope.ttl,
                terms: terms, limits: limits(terms.senderProtocol),
                senderKeysCount: settings.senders != .off,
                obstacle: intake.admission.obstacle(to: terms, at: now.monotonic),
                record: intake.admission.record(for: terms, on: now.day))
        } else {
            command = engine.claims.resume(keys, ttl: envelope.ttl)
        }
        let place = questions.insert(question)
        if terms != nil {
            deadlines.append((place, .now + Engine.patience))
            if deadlines.count == 1 { timer?.start(after: Engine.patience) }
        }
        // Reports an engine that has just gone through `replied`, too.
        if !engine.send(command, number: place.rawValue, for: self) {
            questions.remove(place)
            dispatch.claimed(number, decideAlone(question))
        }
    }

    func replied(_ number: UInt64, _ reply: Result<RedisReply, RedisError>) {
        guard let question = questions.remove(Slab<Question>.Handle(rawValue: number)) else { return }
        let answer = try? ClaimAnswer(reply.get())
        if let answer, question.decidedAlone == nil {
            return dispatch.claimed(question.number, result(answer, question))
        }
        let decided = question.decidedAlone ?? decideAlone(question)
        if question.decidedAlone == nil { dispatch.claimed(question.number, decided) }
        // If the sender has submitted the envelope again, the claim is the newer submission's.
        if case .refused = decided, !dispatch.isPending(question.digest) { release(question, answer) }
    }

    /// Releases an envelope that the node has refused alone, and that the engine has, or may have, given to the node.
    private func release(_ question: Question, _ answer: ClaimAnswer?) {
        var refund: Admission.Refund?
        var wasUnproven = false
        switch answer {
        case .claimed(let record, _): (refund, wasUnproven) = (.everything, !record.isProven)
        // The reply was lost.
        case nil: break
        case .resumed, .final, .elsewhere, .ivReused, .refused: return
        }
        outbox.send(
            engine.claims.conclude(
                question.keys, outcome: nil, window: window,
                limits: limits(question.submission?.terms.senderProtocol ?? .tnp), refund: refund,
                wasUnproven: wasUnproven, event: .none))
    }

    private func result(_ answer: ClaimAnswer, _ question: Question) -> ClaimResult {
        if let (reply, terms) = question.submission, let intake {
            return intake.decided(reply, terms, question.keys, answer)
        }
        switch answer {
        case .elsewhere: return .elsewhere
        case .final(let sealed): return outcome(sealed, of: question.keys).map { .final($0) } ?? .granted(isProven: nil)
        case .resumed, .claimed, .ivReused, .refused: return .granted(isProven: nil)
        }
    }

    private func decideAlone(_ question: Question) -> ClaimResult {
        intake?.nodesDecide(alone: true)
        if let (reply, terms) = question.submission, let intake {
            return intake.decideAlone(reply, terms, question.keys)
        }
        let mayReturn = engine.status.isAvailable || .now < engine.status.since + Self.longestWait
        return mayReturn ? .undecided : .granted(isProven: nil, isAlone: true)
    }

    private func deadlineReached() {
        let now = MonotonicTime.now
        while let first = deadlines.first, first.at <= now {
            deadlines.removeFirst()
            guard questions.contains(first.question) else { continue }
            engine.wasSlow()
            let question = questions[first.question]
            let result = decideAlone(question)
            questions[first.question].decidedAlone = result
            dispatch.claimed(question.number, result)
        }
        if let next = deadlines.first { timer?.start(after: next.at - now) }
    }

    /// Opens an outcome that the engine remembers; `nil` if it is damaged.
    func outcome(_ sealed: [UInt8], of keys: EnvelopeKeys) -> Outcome? {
        engine.names.open(sealed, of: keys.digest).flatMap { Outcome(spooled: $0) }
    }

    // MARK: Stored envelopes

    func stored(_ envelope: SpooledEnvelope) { spool.keep(envelope) }

    // MARK: Bindings

    /// Unbinds device tokens at all nodes.
    /// - Parameter sender: the only key that they are to be unbound from; 0 for any key.
    func unbind(_ tokens: [UInt64], from sender: UInt64 = 0) {
        for token in tokens { outbox.send(engine.claims.unbind(token, from: sender, in: engine.names)) }
    }

    // MARK: Afterwards

    /// Tells the engine the outcome of a submission that this node has admitted.
    func conclude(
        _ keys: EnvelopeKeys, _ outcome: Outcome, _ ticket: Admission.Ticket, _ refund: Admission.Refund,
        _ event: TokenEvent
    ) {
        conclude(
            keys, outcome, limits: limits(ticket.senderProtocol),
            refund: ticket.isShared ? refund : nil, wasUnproven: ticket.isUnproven, event)
    }

    /// Tells the engine the outcome of an envelope that an earlier process has admitted.
    func conclude(_ envelope: Envelope, app: String, _ outcome: Outcome, at now: ClockReading) {
        guard let intake else { return }
        let keys = EnvelopeKeys(
            envelope, token: intake.admission.name(of: envelope, app: app), app: app, through: .tnp, in: engine.names)
        let event: TokenEvent =
            switch outcome.kind {
            case .delivered: .accepted(at: now.milliseconds, signer: 0, predecessor: 0, isUnsigned: false)
            case .gone: .gone(since: outcome.goneSince ?? now.milliseconds)
            case .rejected where outcome.reason == .badDeviceToken: .bad
            case .rejected, .queued, .retry: .none
            }
        conclude(
            keys, outcome, limits: limits.tnp, refund: nil, wasUnproven: false, event)
    }

    private func conclude(
        _ keys: EnvelopeKeys, _ outcome: Outcome, limits: SharedLimits, refund: Admission.Refund?, wasUnproven: Bool,
        _ event: TokenEvent
    ) {
        let sealed = outcome.isRepeated ? engine.names.seal(outcome.spooled, of: keys.digest) : nil
        outbox.send(
            engine.claims.conclude(
                keys, outcome: sealed, window: window, limits: limits, refund: refund, wasUnproven: wasUnproven,
                event: event))
    }
}
