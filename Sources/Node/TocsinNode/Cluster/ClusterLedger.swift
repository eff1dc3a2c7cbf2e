// SPDX-License-Identifier: Apache-2.0

import Admission
import Cluster
import Cryptography
import Delivery
import EventLoop
import Redis
import TNP
import Tables
import Time

/// Asks the engine of the cluster, before the first attempt of each envelope, whether the nodes together admit it and
/// whether this node delivers it. Without the engine, or while it is slow, the node decides alone.
final class ClusterLedger: EnvelopeClaims, RedisReceiver {
    /// How long after the engine's loss the node waits before it delivers its stored envelopes alone: another node may
    /// have taken them over.
    private static let maximumWait = Duration.seconds(60)

    private struct Question {
        /// The number by which `Dispatch` knows the envelope.
        let number: UInt64
        let digest: Digest256
        let keys: EnvelopeKeys
        /// The submission that waits for admission; `nil` for an envelope that was admitted before.
        let submission: (reply: Reply, terms: Admission.Terms)?
        /// What the node has decided alone, while the engine's answer is still to come.
        var decidedAlone: ClaimResult?
    }

    private let engine: Engine
    private unowned let dispatch: Dispatch
    private let shared: IntakeState
    private let gate: ClusterGate
    private var questions = Slab<Question>()
    /// The deadlines of the engine's answers; those of questions that are answered stay until then.
    private var deadlines = DeadlineQueue<Slab<Question>.Handle>(limit: Engine.answerTimeout)
    private var timer: Timer?
    private let outbox: EngineOutbox
    /// Tells the engine the outcomes.
    let outcomes: ClusterOutcomes
    /// The stored envelopes of all nodes.
    let spool: ClusterSpool

    init(
        _ engine: Engine, _ outbox: EngineOutbox, for dispatch: Dispatch, _ shared: IntakeState,
        _ outcomes: ClusterOutcomes, metrics: NodeMetrics, on loop: EventLoop
    ) {
        self.engine = engine
        self.shared = shared
        self.dispatch = dispatch
        gate = ClusterGate(shared, metrics: metrics)
        self.outbox = outbox
        self.outcomes = outcomes
        spool = ClusterSpool(engine, outbox, for: dispatch)
        timer = Timer(on: loop) { [unowned self] in deadlineReached() }
    }

    /// Tells the engine what it has not received, and takes over what ended nodes have stored. Call this once a second.
    func secondPassed() {
        guard engine.status.isAvailable else { return }
        outbox.sendAll()
        spool.secondPassed()
    }

    /// Learns whether the engine can be used.
    func engineChanged(isAvailable: Bool) {
        // Outcomes go before any new claim: an old outcome must not end a newer claim.
        if isAvailable { outbox.sendAll() }
        shared.setDecidesAlone(!isAvailable)
    }

    // MARK: Before the first attempt

    func claim(_ number: UInt64, _ envelope: Envelope, app: String, for reply: Reply?) {
        let terms = reply.flatMap { shared.terms(of: $0) }
        let token = terms?.token ?? shared.admission.name(of: envelope, app: app)
        let keys = outcomes.keys(of: envelope, token: token, app: app, through: terms?.senderProtocol ?? .tnp)
        let question = Question(
            number: number, digest: envelope.digest, keys: keys,
            submission: reply.flatMap { reply in terms.map { (reply, $0) } })
        // No sender waits for a stored envelope: the node asks a slow engine, too, and waits for its answer as long as
        // the connection allows.
        guard terms == nil ? engine.status.isAvailable : engine.isAsked else {
            return dispatch.claimed(number, decideAlone(question))
        }
        shared.setDecidesAlone(false)
        let command: RedisCommand
        if let terms {
            command = engine.claims.take(
                keys, content: engine.names.hash(of: Array(envelope.ciphertext), as: .pair), ttl: envelope.ttl,
                terms: terms, limits: outcomes.limits(terms.senderProtocol),
                senderKeysCount: shared.settings.senders != .off,
                obstacle: shared.admission.obstacle(to: terms, at: shared.reading.monotonic),
                record: shared.admission.record(for: terms, on: shared.reading.day))
        } else {
            command = engine.claims.resume(keys, ttl: envelope.ttl)
        }
        let place = questions.insert(question)
        if terms != nil {
            if deadlines.next == nil { timer?.start(after: Engine.answerTimeout) }
            deadlines.append(place, now: .now)
        }
        // If the connection has just ended, `send` returns `true` and calls `replied` with the error.
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
        if case .refused = decided, !dispatch.isPending(question.digest) {
            outcomes.release(question.keys, answer, through: question.submission?.terms.senderProtocol ?? .tnp)
        }
    }

    private func result(_ answer: ClaimAnswer, _ question: Question) -> ClaimResult {
        if let (reply, terms) = question.submission {
            return gate.decided(reply, terms, question.keys, answer) { outcomes.open($0, of: question.keys) }
        }
        switch answer {
        case .elsewhere: return .elsewhere
        case .final(let sealed):
            return outcomes.open(sealed, of: question.keys).map { .final($0) } ?? .granted(isProven: nil)
        case .resumed, .claimed, .ivReused, .refused: return .granted(isProven: nil)
        }
    }

    private func decideAlone(_ question: Question) -> ClaimResult {
        shared.setDecidesAlone(true)
        if let (reply, terms) = question.submission {
            return gate.decideAlone(reply, terms, question.keys)
        }
        let mayReturn = engine.status.isAvailable || .now < engine.status.since + Self.maximumWait
        return mayReturn ? .undecided : .granted(isProven: nil, isAlone: true)
    }

    private func deadlineReached() {
        let now = MonotonicTime.now
        while let place = deadlines.popOverdue(now: now) {
            guard questions.contains(place) else { continue }
            engine.wasSlow()
            let question = questions[place]
            let result = decideAlone(question)
            questions[place].decidedAlone = result
            dispatch.claimed(question.number, result)
        }
        if let next = deadlines.next { timer?.start(after: next - now) }
    }

    // MARK: Stored envelopes

    func stored(_ envelope: SpooledEnvelope) { spool.keep(envelope) }
}
