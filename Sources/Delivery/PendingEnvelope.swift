// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Providers
import TNP
import Time

/// Receives an envelope's outcomes: at most one QUEUED, then one final outcome. Called on the dispatch's loop.
package struct Reply: @unchecked Sendable {
    // Unchecked: created, passed and called on one loop's thread, between actors of that loop.

    /// Whether the client accepts QUEUED before the final outcome, once the envelope is stored durably.
    let acceptsQueued: Bool
    let isWanted: () -> Bool
    private let handler: (Outcome, ProviderContact) -> Void

    /// - Parameters:
    ///   - acceptsQueued: whether the client accepts QUEUED before the final outcome, once the envelope is stored
    ///     durably.
    ///   - isWanted: whether a client still waits for the outcome.
    ///   - tell: receives each outcome, and whether the envelope has reached a push service.
    package init(
        acceptsQueued: Bool, isWanted: @escaping () -> Bool = { true },
        tell: @escaping (Outcome, ProviderContact) -> Void
    ) {
        self.acceptsQueued = acceptsQueued
        self.isWanted = isWanted
        handler = tell
    }

    func send(_ outcome: Outcome, _ contact: ProviderContact = .notContacted) { handler(outcome, contact) }
}

/// The circuit that an envelope came from, its proof of work, and the standing of its device token.
package struct Origin: Sendable {
    /// The circuit or connection of the sender, which is its flow in the fair queue.
    package let circuit: CircuitID
    /// Expected hashes of the proof of work; 0 without one.
    package let effort: UInt32
    /// Whether a push service has accepted the device token before.
    package let isProven: Bool

    /// - Parameters: as the properties of the same names.
    package init(circuit: CircuitID, effort: UInt32 = 0, isProven: Bool = false) {
        self.circuit = circuit
        self.effort = effort
        self.isProven = isProven
    }

    /// The band in the fair queue: more effort goes first, and twice the effort is one band higher.
    var band: UInt8 { effort == 0 ? 0 : UInt8(32 - effort.leadingZeroBitCount) }
}

/// An accepted envelope that has no final outcome yet.
final class PendingEnvelope: @unchecked Sendable {
    // Unchecked: only its dispatch uses it, and the task that delivers it runs on that dispatch.

    let digest: Digest256
    /// The destination that the sender chose.
    let route: Route
    let format: EnvelopeFormat
    let origin: Origin
    let taken: MonotonicTime
    /// Position in the order of acceptance: envelopes of an earlier process have lower numbers than those of this
    /// process.
    let sequence: UInt64
    /// The reservation of the iv in the replay window, if there is one.
    let pair: ReplayWindow.PairKey?
    var expiry: Expiry
    /// The content; `nil` while it is only in the spool and takes no memory.
    var envelope: Envelope?
    /// The row in the spool; `nil` if the envelope is not stored.
    var row: Int64?
    /// Whether the envelope in memory was loaded from the spool.
    var isLoaded = false
    /// Whether the envelope has reached a provider, or had to leave a queue for lack of room.
    var contact = ProviderContact.notContacted
    /// Whether an earlier process accepted the envelope.
    var isRecovered = false
    /// The submissions that wait for the outcome.
    private(set) var replies: [Reply] = []
    /// Number of replies at which unwanted replies are removed: a client that reconnects and resends leaves a reply
    /// behind.
    private var nextPurge = 16
    /// Maximum number of submissions that may wait for the outcome of one envelope.
    private static let maxReplies = 256
    var attempts = AttemptHistory()
    var search = EnvironmentSearch()
    /// The lane that holds the envelope back because its breaker is open.
    var heldBy: Lane?
    /// The lane that the envelope goes out to probe.
    var probedLane: Lane?
    /// The outcome reported to senders that do not accept QUEUED.
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

    /// Adds a submission that waits for the outcome.
    func attach(_ reply: Reply) {
        if replies.count >= nextPurge {
            replies.removeAll { !$0.isWanted() }
            nextPurge = max(16, replies.count * 2)
        }
        guard replies.count < Self.maxReplies else {
            return reply.send(.retry(.nodeBusy, after: 10_000, text: "too many submissions wait for this outcome"))
        }
        if row != nil, reply.acceptsQueued { reply.send(Outcome(.queued)) }
        if envelope != nil || reply.acceptsQueued { replies.append(reply) } else { reply.send(lastRefusal) }
    }

    /// Records the row of a stored envelope, and reports QUEUED to senders that accept it.
    func becameStored(_ row: Int64) {
        guard self.row != row else { return }
        self.row = row
        for reply in replies where reply.acceptsQueued { reply.send(Outcome(.queued)) }
    }

    /// Reports `refusal` to senders that do not accept QUEUED, because the envelope has to wait in the spool.
    func rejectUnqueued(with refusal: Outcome) {
        lastRefusal = refusal
        for reply in replies where !reply.acceptsQueued { reply.send(refusal, contact) }
        replies.removeAll { !$0.acceptsQueued }
    }

    /// Reports the final outcome.
    func finish(_ outcome: Outcome) {
        for reply in replies { reply.send(outcome, contact) }
        replies = []
    }
}
