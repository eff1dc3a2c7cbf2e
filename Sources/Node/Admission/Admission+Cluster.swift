// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP
import Time

/// A device token's record as the nodes of a cluster share it: without the allowance and the flag `isUnsaved`, which
/// belong to one process. Prints as `<redacted>`.
package struct SharedRecord: Sendable, Equatable, Redacted {
    /// 0 unproven, 1 proven, 2 dead.
    package var standing: UInt8
    /// When the standing began or was last confirmed, Unix time in milliseconds.
    package var since: UInt64
    /// The day of the last use, counted from 1970-01-01.
    package var day: UInt16
    /// The keyed hash of the sender key that the token is bound to; 0 if none.
    package var sender: UInt64
    /// The last day on which an unsigned submission was delivered, counted from 1970-01-01; 0 if there was none, or the
    /// token is bound.
    package var unsignedDay: UInt16

    /// Whether a push service has accepted the device token.
    package var isProven: Bool { standing == TokenRecord.Standing.proven.rawValue }

    package init(standing: UInt8, since: UInt64, day: UInt16, sender: UInt64, unsignedDay: UInt16) {
        self.standing = standing
        self.since = since
        self.day = day
        self.sender = sender
        self.unsignedDay = unsignedDay
    }
}

/// Why the nodes of a cluster together refuse a submission.
package enum SharedRefusal: Sendable, Equatable {
    /// The app or the HTTP endpoint is over its rate.
    case busy(wait: Duration)
    /// The budget for unproven device tokens is used up.
    case unproven(wait: Duration)
    /// The device token is unproven, or refused for another reason, and this node has told the engine of an obstacle to
    /// unproven device tokens.
    case obstacle(Admission.UnprovenObstacle)
    /// The device token is dead, since this time (Unix time in milliseconds).
    case dead(since: UInt64)
    /// The device token is bound, and the submission is unsigned.
    case keyRequired
    /// The device token is bound to another sender key.
    case keyMismatch
    /// The device token is over its rate; the used part of its allowance is the time in which it is full again.
    case device(wait: Duration, used: Duration)
}

/// What a push service has said about a device token.
package enum TokenEvent: Sendable, Equatable {
    case accepted(at: UInt64, signer: UInt64, predecessor: UInt64, isUnsigned: Bool)
    case gone(since: UInt64)
    case bad
    case none

    /// What an outcome says about the envelope's device token. By default nothing is known of the sender, as of that of a
    /// stored envelope.
    /// - Parameter now: Unix time in milliseconds.
    package init(
        of outcome: Outcome, signer: UInt64 = 0, predecessor: UInt64 = 0, isUnsigned: Bool = false, at now: UInt64
    ) {
        self =
            switch outcome.kind {
            case .delivered:
                .accepted(at: now, signer: signer, predecessor: predecessor, isUnsigned: isUnsigned)
            case .gone: .gone(since: outcome.goneSince ?? now)
            case .rejected where outcome.reason == .badDeviceToken: .bad
            case .rejected, .queued, .retry: .none
            }
    }
}

/// Gate 7 of `Intake` in a cluster, whose nodes share what they know about device tokens, and the rates of this gate
/// except the node's own. A node asks the engine, and keeps the engine's answers in its own tables for the time when
/// the engine is unavailable.
extension Admission {
    /// Refuses a submission that exceeds the node's own rate; otherwise the engine decides. Until then, a device token
    /// that is not proven counts among its circuit's unproven device tokens in flight.
    package mutating func checkNode(_ terms: inout Terms, at now: MonotonicTime) throws(Refusal) {
        try checkBusy(.zero, terms, now)
        node.take(settings.node, now: now)
        guard tokens[terms.token]?.standing != .proven else { return }
        circuits.update(terms.circuit) { $0.unproven += 1 }
        terms.isCounted = true
    }

    /// Undoes ``checkNode(_:at:)`` after the engine has refused the submission or has not decided.
    package mutating func refundNode(_ terms: inout Terms, at now: MonotonicTime) {
        node.refund(settings.node, now: now)
        uncount(&terms)
    }

    mutating func uncount(_ terms: inout Terms) {
        if terms.isCounted { endUnproven(on: terms.circuit) }
        terms.isCounted = false
    }

    /// What this node knows about the device token, for an engine that has no record of it.
    package func record(for terms: Terms, on day: UInt16) -> SharedRecord {
        guard let record = tokens[terms.token] else {
            return SharedRecord(standing: 0, since: 0, day: day, sender: 0, unsignedDay: 0)
        }
        return SharedRecord(
            standing: record.standing.rawValue, since: record.since, day: record.day, sender: record.sender,
            unsignedDay: record.unsignedDay ?? 0)
    }

    /// Records that the engine has admitted a submission. This node still refuses it if it remembers that a push
    /// service has refused the device token, which the engine does not remember. The caller must then release the
    /// claim.
    /// - Parameters:
    ///   - shared: the device token's record in the engine.
    ///   - used: the used part of the device token's allowance, as the time in which it is full again.
    package mutating func admitted(
        _ terms: Terms, _ shared: SharedRecord, used: Duration, at moment: ClockReading
    ) throws(Refusal) -> Ticket {
        var terms = terms
        uncount(&terms)
        let now = moment.monotonic
        learn(shared, of: terms.token)
        if let refused = badTokens.outcome(for: terms.token, at: now) {
            node.refund(settings.node, now: now)
            countUnproven(terms, isRefused: false)
            if terms.senderProtocol == .tnp { effort.count(isRefused: false, paid: terms.effort) }
            throw Refusal(refused)
        }
        let allowance = Allowance(fullAt: now.nanoseconds &+ used.wholeNanoseconds)
        tokens.update(terms.token) { $0.allowance = allowance }
        let isUnproven = !shared.isProven
        if isUnproven { countUnproven(terms, isRefused: false) }
        if terms.senderProtocol == .tnp { effort.count(isRefused: false, paid: terms.effort) }
        takeShared(terms, isUnproven: isUnproven, now)
        return ticket(for: terms, isUnproven: isUnproven, isShared: true)
    }

    /// Records that the engine refuses a submission, and returns the refusal for its sender.
    package mutating func refusal(of terms: Terms, _ reason: SharedRefusal, at moment: ClockReading) -> Refusal {
        let now = moment.monotonic
        var terms = terms
        refundNode(&terms, at: now)
        switch reason {
        case .busy(let wait): return .retry(.nodeBusy, after: wait)
        case .unproven(let wait):
            countUnproven(terms, isRefused: true)
            return .retry(.tooManyUnproven, after: wait)
        case .obstacle(let obstacle): return refusal(of: terms, for: obstacle, now)
        case .dead:
            change(terms.token) { record in
                record.standing = .dead
                record.since = 0
                record.unbind()
            }
            return Refusal(.gone(since: nil))
        case .keyRequired: return Refusal(.rejected(.senderKeyRequired))
        case .keyMismatch: return Refusal(.rejected(.senderKeyMismatch))
        case .device(let wait, let used):
            if let refused = badTokens.outcome(for: terms.token, at: now) { return Refusal(refused) }
            let allowance = Allowance(fullAt: now.nanoseconds &+ used.wholeNanoseconds)
            return Refusal(
                allowance.added(
                    to: .retry(.deviceTokenOverRate, after: wait.wireMilliseconds), settings.device, now: now))
        }
    }

    /// What the outcome of a submission says about its device token.
    package func event(
        _ outcome: Outcome, of ticket: Ticket, binds: Bool, at moment: ClockReading
    ) -> TokenEvent {
        let terms = ticket.terms
        return TokenEvent(
            of: outcome, signer: binds && settings.senders != .off ? terms.signer : 0, predecessor: terms.predecessor,
            isUnsigned: terms.isUnsigned, at: moment.milliseconds)
    }

    /// Adopts the record that the nodes of the cluster share about a device token.
    package mutating func learn(_ shared: SharedRecord, of token: UInt64) {
        let before = tokens[token]
        var record = before ?? TokenRecord(token: token)
        record.standing = TokenRecord.Standing(rawValue: shared.standing) ?? .unproven
        record.day = shared.day
        if shared.sender != 0 {
            record.sender = shared.sender
        } else {
            record.unsignedDay = shared.unsignedDay == 0 ? nil : shared.unsignedDay
        }
        // A time of acceptance alone is not worth a disk write per notification.
        let isNew = record != before
        // For a dead token, the engine's time may be that of a node's clock, which no sender may learn (PROTOCOL §4).
        record.since = record.standing == .dead ? 0 : shared.since
        let since = record.since
        if isNew { store(record) } else { tokens.update(token) { $0.since = since } }
    }
}
