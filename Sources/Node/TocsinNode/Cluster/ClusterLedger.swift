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
    private static let maximumWait = Duration.seconds(60)

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

    private struct Budgets: Hashable {
        let app: String
        let senderProtocol: Admission.SenderProtocol
    }

    private let engine: Engine
    private unowned let dispatch: Dispatch
    private let gate: ClusterGate
    private let window: Duration
    /// The limits of all nodes together.
    private var limits: (tnp: SharedLimits, http: SharedLimits)
    /// The names of the keys of the budgets of each app and protocol: no more than the configuration has apps.
    private var budgets: [Budgets: RedisArguments] = [:]
    private var questions = Slab<Question>()
    /// The questions and when they have waited for too long, in this order. Some are answered.
    private var deadlines: Deque<(question: Slab<Question>.Handle, at: MonotonicTime)> = []
    private var timer: Timer?
    private let outbox: EngineOutbox
    /// The stored envelopes of all nodes.
    let spool: ClusterSpool

    /// - Parameters:
    ///   - gate: takes the engine's decisions.
    ///   - window: how long an outcome is remembered.
    init(
        _ engine: Engine, _ outbox: EngineOutbox, for dispatch: Dispatch, _ gate: ClusterGate, window: Duration,
        on loop: EventLoop
    ) {
        self.engine = engine
        self.dispatch = dispatch
        self.gate = gate
        self.window = window
        self.outbox = outbox
        spool = ClusterSpool(engine, outbox, for: dispatch)
        limits = Self.limits(of: gate.settings)
        timer = Timer(on: loop) { [unowned self] in deadlineReached() }
    }

    /// Takes the settings of a reload.
    func settingsChanged() { limits = Self.limits(of: gate.settings) }

    private static func limits(of settings: AdmissionSettings) -> (tnp: SharedLimits, http: SharedLimits) {
        (SharedLimits(settings, for: .tnp), SharedLimits(settings, for: .http))
    }

    private func keys(
        of envelope: Envelope, token: UInt64, app: String, through senderProtocol: Admission.SenderProtocol
    ) -> EnvelopeKeys {
        let place = Budgets(app: app, senderProtocol: senderProtocol)
        let names: RedisArguments
        if let known = budgets[place] {
            names = known
        } else {
            names = engine.names.budgets(of: app, through: senderProtocol)
            budgets[place] = names
        }
        return EnvelopeKeys(envelope, token: token, budgets: names, in: engine.names)
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
        gate.setDecidesAlone(!isAvailable)
    }

    // MARK: Before the first attempt

    func claim(_ number: UInt64, _ envelope: Envelope, app: String, for reply: Reply?) {
        let terms = reply.flatMap { gate.terms(of: $0) }
        let token = terms?.token ?? gate.name(of: envelope, app: app)
        let keys = keys(of: envelope, token: token, app: app, through: terms?.senderProtocol ?? .tnp)
        let question = Question(
            number: number, digest: envelope.digest, keys: keys,
            submission: reply.flatMap { reply in terms.map { (reply, $0) } })
        // Nobody waits for a stored envelope: a slow engine has all the time that a connection allows.
        guard terms == nil ? engine.status.isAvailable : engine.isAsked else {
            return dispatch.claimed(number, decideAlone(question))
        }
        gate.setDecidesAlone(false)
        let command: RedisCommand
        if let terms {
            command = engine.claims.take(
                keys, content: engine.names.hash(of: Array(envelope.ciphertext), as: .pair), ttl: envelope.ttl,
                terms: terms, limits: limits(terms.senderProtocol),
                senderKeysCount: gate.settings.senders != .off, obstacle: gate.obstacle(to: terms),
                record: gate.record(for: terms))
        } else {
            command = engine.claims.resume(keys, ttl: envelope.ttl)
        }
        let place = questions.insert(question)
        if terms != nil {
            deadlines.append((place, .now + Engine.answerTimeout))
            if deadlines.count == 1 { timer?.start(after: Engine.answerTimeout) }
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
        let decided = question.decidedAlone ?? answer.map { result($0, question) } ?? decideAlone(question)
        if question.decidedAlone == nil { dispatch.claimed(question.number, decided) }
        // If the sender has submitted the envelope again, the claim is the newer submission's.
        if case .refused = decided, !dispatch.isPending(question.digest) { release(question, answer) }
    }

    /// Releases an envelope that the node has refused, and that the engine has, or may have, given to the node.
    private func release(_ question: Question, _ answer: ClaimAnswer?) {
        guard let release = ClaimAnswer.release(after: answer) else { return }
        outbox.send(
            engine.claims.conclude(
                question.keys, outcome: nil, window: window,
                limits: limits(question.submission?.terms.senderProtocol ?? .tnp), refund: release.refund,
                wasUnproven: release.wasUnproven, event: .none))
    }

    private func result(_ answer: ClaimAnswer, _ question: Question) -> ClaimResult {
        if let (reply, terms) = question.submission {
            return gate.decided(reply, terms, question.keys, answer) { outcome($0, of: question.keys) }
        }
        switch answer {
        case .elsewhere: return .elsewhere
        case .final(let sealed): return outcome(sealed, of: question.keys).map { .final($0) } ?? .granted(isProven: nil)
        case .resumed, .claimed, .ivReused, .refused: return .granted(isProven: nil)
        }
    }

    private func decideAlone(_ question: Question) -> ClaimResult {
        gate.setDecidesAlone(true)
        if let (reply, terms) = question.submission {
            return gate.decideAlone(reply, terms, question.keys)
        }
        let mayReturn = engine.status.isAvailable || .now < engine.status.since + Self.maximumWait
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
        let keys = keys(of: envelope, token: gate.name(of: envelope, app: app), app: app, through: .tnp)
        conclude(
            keys, outcome, limits: limits.tnp, refund: nil, wasUnproven: false,
            TokenEvent(ofStored: outcome, at: now.milliseconds))
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
