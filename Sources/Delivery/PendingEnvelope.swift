// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Providers
import TNP
import Time

/// Told of an envelope's outcomes: at most one QUEUED, then one that is final. Called on the loop of the dispatch.
package struct Reply: @unchecked Sendable {
    // Unchecked: made and called on one loop's thread; it only passes from one of its actors to another.

    /// Whether QUEUED may come first, once the envelope is stored durably.
    let acceptsQueued: Bool
    let isWanted: () -> Bool
    private let told: (Outcome, ProviderContact) -> Void

    /// - Parameters:
    ///   - acceptsQueued: whether QUEUED may come first, once the envelope is stored durably.
    ///   - isWanted: whether anybody is still there to be told.
    ///   - tell: is told each outcome, and how far the envelope has come.
    package init(
        acceptsQueued: Bool, isWanted: @escaping () -> Bool = { true },
        tell: @escaping (Outcome, ProviderContact) -> Void
    ) {
        self.acceptsQueued = acceptsQueued
        self.isWanted = isWanted
        told = tell
    }

    func tell(_ outcome: Outcome, _ reach: ProviderContact = .notAsked) { told(outcome, reach) }
}

/// Where an envelope comes from, and what its sender has paid for it in work.
package struct Origin: Sendable {
    package let circuit: CircuitID
    /// Expected hashes of its proof; 0: none.
    package let effort: UInt32
    /// Whether a push service has accepted its device token before.
    package let isProven: Bool

    /// - Parameters: as the properties of the same names.
    package init(circuit: CircuitID, effort: UInt32 = 0, isProven: Bool = false) {
        self.circuit = circuit
        self.effort = effort
        self.isProven = isProven
    }

    /// More effort goes first: twice as much is a band higher.
    var band: UInt8 { effort == 0 ? 0 : UInt8(32 - effort.leadingZeroBitCount) }
}

/// An envelope from when it is taken until it has its outcome.
final class PendingEnvelope: @unchecked Sendable {
    // Unchecked: touched by its dispatch only; it goes into the task that carries it, which runs there.

    let digest: Digest256
    /// Where its sender wants it to go.
    let route: Route
    let format: EnvelopeFormat
    let origin: Origin
    let taken: MonotonicTime
    /// Its place among all that were taken: those of an earlier process come before those of this one.
    let sequence: UInt64
    /// The claim on its iv in the replay window, where it has one.
    let pair: ReplayWindow.PairKey?
    var expiry: Expiry
    /// Nil while it waits in the spool and takes no memory here.
    var envelope: Envelope?
    /// Its row in the spool.
    var row: Int64?
    /// Whether it is in memory because the spool was asked for it.
    var isLoaded = false
    /// How far it has come.
    var reach = ProviderContact.notAsked
    /// Whether an earlier process took it.
    var isRecovered = false
    /// Those who wait for the outcome.
    private(set) var replies: [Reply] = []
    /// When those are let go of who are there no more: who has reconnected and sent again leaves a reply behind.
    private var nextPurge = 16
    /// The most who may wait for one envelope.
    private static let mostReplies = 256
    var attempts = AttemptHistory()
    var search = EnvironmentSearch()
    /// The lane whose breaker keeps it back.
    var heldBy: Lane?
    /// The lane that it goes ahead for, to see whether it works again.
    var probes: Lane?
    /// What who cannot wait for it is told.
    var lastRefusal = Outcome.retry(.providerUnreachable, after: 60_000)

    init(
        _ envelope: Envelope, route: Route, format: EnvelopeFormat, origin: Origin, expiry: Expiry,
        taken: MonotonicTime, sequence: UInt64, pair: ReplayWindow.PairKey?
    ) {
        digest = envelope.digest
        self.envelope = envelope
        self.route = route
        self.format = format
        self.origin = origin
        self.expiry = expiry
        self.taken = taken
        self.sequence = sequence
        self.pair = pair
    }

    /// One more waits for the outcome.
    func attach(_ reply: Reply) {
        if replies.count >= nextPurge {
            replies.removeAll { !$0.isWanted() }
            nextPurge = max(16, replies.count * 2)
        }
        guard replies.count < Self.mostReplies else {
            return reply.tell(.retry(.nodeBusy, after: 10_000, text: "too many wait for this envelope already"))
        }
        if row != nil, reply.acceptsQueued { reply.tell(Outcome(.queued)) }
        if envelope != nil || reply.acceptsQueued { replies.append(reply) } else { reply.tell(lastRefusal) }
    }

    /// It is stored durably.
    func becameStored(_ row: Int64) {
        guard self.row != row else { return }
        self.row = row
        for reply in replies where reply.acceptsQueued { reply.tell(Outcome(.queued)) }
    }

    /// It has to wait in the spool: who does not accept that is told so.
    func rejectImpatient(with refusal: Outcome) {
        lastRefusal = refusal
        for reply in replies where !reply.acceptsQueued { reply.tell(refusal, reach) }
        replies.removeAll { !$0.acceptsQueued }
    }

    /// It has its outcome.
    func tell(_ outcome: Outcome) {
        for reply in replies { reply.tell(outcome, reach) }
        replies = []
    }
}
