// SPDX-License-Identifier: Apache-2.0

import Admission
import Cluster
import Delivery
import Redis
import TNP
import Time

/// Tells the engine of the cluster what became of envelopes and of bindings.
final class ClusterOutcomes {
    private struct Budgets: Hashable {
        let app: String
        let senderProtocol: Admission.SenderProtocol
    }

    private let engine: Engine
    private let outbox: EngineOutbox
    private let shared: IntakeState
    private let window: Duration
    /// The limits of all nodes together.
    private var limits: (tnp: SharedLimits, http: SharedLimits)
    /// The names of the keys of the budgets of each app and protocol: no more than the configuration has apps.
    private var budgets: [Budgets: RedisCommand] = [:]

    /// - Parameter window: how long an outcome is remembered.
    init(_ engine: Engine, _ outbox: EngineOutbox, _ shared: IntakeState, window: Duration) {
        self.engine = engine
        self.outbox = outbox
        self.shared = shared
        self.window = window
        limits = Self.limits(of: shared.settings)
    }

    /// Takes the settings of a reload.
    func settingsChanged() { limits = Self.limits(of: shared.settings) }

    private static func limits(of settings: AdmissionSettings) -> (tnp: SharedLimits, http: SharedLimits) {
        (SharedLimits(settings, for: .tnp), SharedLimits(settings, for: .http))
    }

    /// The limits of all nodes together for the submissions of a protocol.
    func limits(_ senderProtocol: Admission.SenderProtocol) -> SharedLimits {
        senderProtocol == .http ? limits.http : limits.tnp
    }

    /// The keys of an envelope in the engine.
    func keys(
        of envelope: Envelope, token: UInt64, app: String, through senderProtocol: Admission.SenderProtocol
    ) -> EnvelopeKeys {
        let place = Budgets(app: app, senderProtocol: senderProtocol)
        let names = budgets.value(place, orInsert: engine.names.budgets(of: app, through: senderProtocol))
        return EnvelopeKeys(envelope, token: token, budgets: names, in: engine.names)
    }

    /// Tells the engine the outcome of a submission that this node has admitted.
    func conclude(
        _ keys: EnvelopeKeys, _ outcome: Outcome, _ ticket: Admission.Ticket, _ refund: Admission.Refund,
        _ event: TokenEvent
    ) {
        conclude(
            keys, outcome, through: ticket.terms.senderProtocol, refund: ticket.isShared ? refund : nil,
            wasUnproven: ticket.isUnproven, event)
    }

    /// Tells the engine the outcome of an envelope that an earlier process has admitted.
    func conclude(_ envelope: Envelope, app: String, _ outcome: Outcome, at now: ClockReading) {
        let keys = keys(of: envelope, token: shared.admission.name(of: envelope, app: app), app: app, through: .tnp)
        conclude(
            keys, outcome, through: .tnp, refund: nil, wasUnproven: false,
            TokenEvent(of: outcome, at: now.milliseconds))
    }

    /// Releases an envelope that the node has refused, if the engine has, or may have, given it to the node.
    /// - Parameter answer: `nil` if the engine's reply was lost.
    func release(
        _ keys: EnvelopeKeys, _ answer: ClaimAnswer?, through senderProtocol: Admission.SenderProtocol
    ) {
        guard let release = ClaimAnswer.release(after: answer) else { return }
        conclude(
            keys, nil, through: senderProtocol, refund: release.refund, wasUnproven: release.wasUnproven, .none)
    }

    private func conclude(
        _ keys: EnvelopeKeys, _ outcome: Outcome?, through senderProtocol: Admission.SenderProtocol,
        refund: Admission.Refund?, wasUnproven: Bool, _ event: TokenEvent
    ) {
        let repeated = outcome.flatMap { $0.isRepeated ? $0.spooled : nil }
        outbox.send(
            engine.claims.conclude(
                keys, outcome: repeated.map { engine.names.seal($0, of: keys.digest) }, window: window,
                limits: limits(senderProtocol), refund: refund, wasUnproven: wasUnproven, event: event))
    }

    /// Opens an outcome that the engine remembers; `nil` if it is damaged.
    func open(_ sealed: [UInt8], of keys: EnvelopeKeys) -> Outcome? {
        engine.names.open(sealed, of: keys.digest).flatMap { Outcome(spooled: $0) }
    }

    /// Unbinds device tokens at all nodes.
    /// - Parameter sender: the only key that they are to be unbound from; 0 for any key.
    func unbind(_ tokens: [UInt64], from sender: UInt64 = 0) {
        for token in tokens { outbox.send(engine.claims.unbind(token, from: sender, in: engine.names)) }
    }
}
