// SPDX-License-Identifier: Apache-2.0

import TNP
import Time

extension Admission {
    /// Which allowances a submission with this outcome gets back.
    package struct Refund: Sendable, Equatable {
        /// Whether the app, the node, the budget of unproven device tokens and the HTTP endpoint get theirs back: if
        /// the node sent the envelope to no push service. An envelope whose ttl has expired gets nothing back: it takes
        /// a place in the replay window (PROTOCOL §3), which could otherwise be filled for free.
        package let budgets: Bool
        /// Whether the device token gets its back, because the phone did not ring.
        package let device: Bool

        /// The refund of a submission that the engine has admitted and the node has then refused.
        package static let everything = Refund(budgets: true, device: true)

        private init(budgets: Bool, device: Bool) {
            self.budgets = budgets
            self.device = device
        }

        package init(_ outcome: Outcome, contact: ProviderContact) {
            budgets = contact != .contacted && outcome.reason != .ttlRanOut
            device = budgets || outcome.kind == .retry
        }
    }

    /// Forgets which device tokens push services have refused: a reload may have mended what made them refuse.
    package mutating func forgetBadTokens() { badTokens = BadTokens() }

    /// Subtracts one from the circuit's unproven device tokens in flight.
    mutating func endUnproven(on circuit: CircuitID) {
        circuits.update(circuit) { $0.unproven = max(0, $0.unproven - 1) }
    }

    /// Records the final outcome of an admitted submission.
    /// - Parameter binds: whether a delivery may bind the device token to the sender key.
    /// - Returns: a GOAWAY if the outcome blocks the circuit.
    package mutating func finish(
        _ ticket: Ticket, with outcome: Outcome, contact: ProviderContact, binds: Bool = true, at moment: ClockReading
    ) -> GoAway? {
        let now = moment.monotonic
        if ticket.isUnproven { endUnproven(on: ticket.terms.circuit) }
        // A submission to be sent again keeps its proof.
        if ticket.terms.proof != 0, outcome.kind != .retry { spentProofs.insert(ticket.terms.proof) }
        let refund = Refund(outcome, contact: contact)
        if refund.budgets {
            switch ticket.terms.senderProtocol {
            case .tnp: if ticket.isUnproven { unproven.refund(settings.unproven, now: now) }
            case .http:
                if ticket.isUnproven { httpUnproven.refund(settings.httpUnproven, now: now) }
                http.refund(settings.http, now: now)
            }
            node.refund(settings.node, now: now)
            apps[ticket.terms.app].allowance.refund(settings.app, now: now)
        }
        if contact == .noCapacity, ticket.terms.senderProtocol == .tnp {
            effort.count(isRefused: true, paid: ticket.terms.effort)
        }
        if refund.device {
            let rate = settings.device
            tokens.update(ticket.terms.token) { $0.allowance.refund(rate, now: now) }
        }
        switch outcome.kind {
        case .delivered: accepted(ticket, mayBind: binds, moment)
        case .gone:
            guard died(ticket, since: outcome.goneSince, moment) else { return nil }
            // A phone that was known is gone now: that is no abuse.
            return ticket.isUnproven ? charge(ticket.terms.circuit, at: moment.monotonic) : nil
        case .rejected where outcome.reason == .badDeviceToken:
            change(ticket.terms.token) { $0.standing = .unproven }
            // The refusal of a proven token is no abuse, and is not remembered: the next submission asks the push
            // service again.
            guard ticket.isUnproven, badTokens.refused(ticket.terms.token, with: outcome, at: now) else { return nil }
            return charge(ticket.terms.circuit, at: now)
        // Charged: the sender could have known that the notification is too large, and the node made a futile request.
        case .rejected where outcome.reason == .tooLarge: return charge(ticket.terms.circuit, at: now)
        case .rejected, .queued, .retry: break
        }
        return nil
    }

    /// Records the outcome of an envelope whose sender is no longer known, such as one that an earlier process stored.
    package mutating func recordOutcome(_ outcome: Outcome, of envelope: Envelope, app: String, at moment: ClockReading)
    {
        let terms = Terms(
            token: name(of: envelope, app: app), app: index(of: app), circuit: .storedEnvelopes(phone: 0),
            senderProtocol: .tnp)
        let ticket = Ticket(terms: terms, isUnproven: false, isShared: false)
        _ = finish(ticket, with: outcome, contact: .contacted, at: moment)
    }

    /// Adds to a DELIVERED outcome the device token's remaining allowance and the time until that is full again. Of the
    /// other outcomes, only RETRY 200 shows them: otherwise anyone who knows the device token could watch, without
    /// ringing the phone, when others ring it.
    package func addingAllowance(to outcome: Outcome, of ticket: Ticket, at now: MonotonicTime) -> Outcome {
        guard outcome.kind == .delivered else { return outcome }
        return (tokens[ticket.terms.token]?.allowance ?? Allowance()).added(to: outcome, settings.device, now: now)
    }

    mutating func accepted(_ ticket: Ticket, mayBind: Bool, _ moment: ClockReading) {
        badTokens.accepted(ticket.terms.token)
        let record = tokens[ticket.terms.token] ?? TokenRecord(token: ticket.terms.token)
        let bound = settings.sender(of: record, on: moment.day)
        let isBound = bound != 0
        let mayBegin = !isBound && !settings.hasRecentUnsigned(of: record, on: moment.day)
        let binds =
            mayBind && ticket.terms.signer != 0 && settings.senders != .off
            && (mayBegin || (isBound && bound == ticket.terms.predecessor))
        let recordsUnsigned =
            ticket.terms.isUnsigned && !isBound && settings.senderQuietDays > 0 && record.unsignedDay != moment.day
        if record.standing == .proven, record.day >= moment.day, !binds, !recordsUnsigned {
            // Updates the time of acceptance in memory only: it is not worth a disk write per notification.
            tokens.update(ticket.terms.token) { $0.since = moment.milliseconds }
            return
        }
        let settings = settings
        change(ticket.terms.token) { record in
            // Using a token must not revive its expired binding.
            settings.forgetOldBinding(of: &record, on: moment.day)
            record.standing = .proven
            record.since = moment.milliseconds
            record.use(on: moment.day)
            if binds {
                record.sender = ticket.terms.signer
            } else if recordsUnsigned {
                record.unsignedDay = moment.day
            }
        }
    }

    /// Records that a device token is gone.
    /// - Returns: whether this is new to the node: `false` if the token was dead already, or if a push service accepted
    ///   it after the time since which it is gone.
    private mutating func died(_ ticket: Ticket, since named: UInt64?, _ moment: ClockReading) -> Bool {
        let since = named ?? moment.milliseconds
        // Ignores an acceptance in the future, which was recorded before the wall clock was corrected.
        if let record = tokens[ticket.terms.token], record.standing == .proven, record.since > since,
            record.since <= moment.milliseconds
        {
            return false
        }
        let isNew = tokens[ticket.terms.token]?.standing != .dead
        change(ticket.terms.token) { record in
            record.standing = .dead
            // Never the node's own clock, by which its onions could be linked (PROTOCOL §4).
            record.since = named ?? 0
            record.use(on: moment.day)
            record.unbind()
        }
        return isNew
    }
}

extension Allowance {
    /// The outcome with the remaining allowance: RESULT's fields 0x04 and 0x05.
    func added(to outcome: Outcome, _ rate: Rate, now: MonotonicTime) -> Outcome {
        var outcome = outcome
        outcome.left = UInt32(clamping: remaining(rate, now: now))
        outcome.fullIn = fullIn(rate, now: now).wireMilliseconds
        return outcome
    }
}
