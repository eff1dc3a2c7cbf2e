// SPDX-License-Identifier: Apache-2.0

import Cryptography
import DequeModule
import Providers
import TNP
import Tables
import Time

/// A submission that waits for an envelope's outcomes: at most one QUEUED, then exactly one final outcome.
package struct Reply: Sendable, Hashable {
    /// Identifies the submission to the ``OutcomeReceiver``.
    package let number: UInt64
    /// Whether the sender accepts QUEUED before the final outcome, once the envelope is stored durably.
    package let acceptsQueued: Bool

    /// - Parameters: as the properties of the same names.
    package init(number: UInt64, acceptsQueued: Bool) {
        self.number = number
        self.acceptsQueued = acceptsQueued
    }
}

/// Receives the outcomes of submissions, on the dispatch's loop.
package protocol OutcomeReceiver: AnyObject {
    /// Reports an outcome of a submission, and whether the envelope has reached a push service.
    func finished(_ reply: Reply, _ outcome: Outcome, _ contact: ProviderContact)
    /// Reports that a submission, which has got QUEUED, waits in the spool: nothing can be delivered now.
    func parked(_ reply: Reply)
    /// Whether a sender still waits for the outcome.
    func isWanted(_ reply: Reply) -> Bool
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

    /// Above the band of the largest effort, which is 32.
    private static let siteBand: UInt8 = 33

    /// The band in the fair queue: known sites go first, then more effort; twice the effort is one band higher.
    var band: UInt8 {
        if circuit.site != nil { return Self.siteBand }
        return effort == 0 ? 0 : UInt8(32 - effort.leadingZeroBitCount)
    }
}

/// An accepted envelope that has no final outcome yet.
final class PendingEnvelope: @unchecked Sendable {
    // Unchecked: only its dispatch uses it, on the loop's thread.

    typealias Handle = Slab<PendingEnvelope>.Handle

    /// What the envelope waits for.
    enum Phase: Equatable {
        /// Nothing: an event is being handled.
        case active
        /// The right to deliver it, which one node of the cluster has.
        case claiming
        /// The spool stores it.
        case storing
        /// The spool looks up whether an earlier process knew it.
        case lookingUp
        /// A turn in a lane's queue, since this time.
        case queued(since: MonotonicTime)
        /// The answer of a lane's provider.
        case attempting(Attempt)
        /// The end of a pause between two attempts.
        case paused(until: MonotonicTime)
        /// Its time in the spool's schedule; it takes no memory for its content.
        case parked
    }

    /// An attempt in flight.
    struct Attempt: Equatable {
        let route: RouteTable.Number
        /// The generation of the lane.
        let lane: Int
        /// Whether the attempt probes a half-open breaker.
        let isProbe: Bool
        /// When the envelope entered the lane's queue, and when it left the queue.
        let queued, started: MonotonicTime
    }

    /// The envelope's place among all pending ones; set once it has one.
    var handle = Handle(rawValue: .max)
    let digest: Digest256
    /// The key of the device token.
    let token: TableKey
    /// The key of the device token and the collapse id; `nil` without a collapse id.
    let collapse: TableKey?
    /// Bytes of the ciphertext.
    let size: Int
    /// The destination that the sender chose. For Web Push it may change until delivery begins.
    var route: RouteTable.Number
    let format: EnvelopeFormat
    var origin: Origin
    let taken: MonotonicTime
    /// Position in the order of acceptance: envelopes of an earlier process have lower numbers than those of this
    /// process.
    let sequence: UInt64
    /// The reservation of the iv in the replay window, if there is one.
    let pair: TableKey?
    var expiry: Expiry
    /// The outcome that the nodes of the cluster know, while the spool looks up whether it holds the envelope.
    var knownOutcome: Outcome?
    var phase = Phase.active
    /// The content; `nil` while it is only in the spool and takes no memory.
    var envelope: Envelope?
    /// Whether the content is in memory.
    var isInMemory: Bool { envelope != nil }
    /// The row in the spool; `nil` if the envelope is not stored.
    var row: Int64?
    /// Whether the envelope in memory was loaded from the spool.
    var isLoaded = false
    /// Whether the envelope counts as one of its route's envelopes in memory.
    var isDelivering = false
    /// Whether the envelope has reached a provider, or had to leave a queue for lack of room.
    var contact = ProviderContact.notContacted
    /// Whether an earlier process or another node of the cluster accepted the envelope.
    var isRecovered = false
    /// Whether this run has given the row its date, so that ``expiry`` is right whatever the wall clock did since.
    var isDated = false
    /// Whether the envelope is stored before its first attempt.
    var isToBeStored = false
    /// Whether the node may deliver the envelope; if not, another node of the cluster may have it.
    var isClaimed = false
    /// The generation of the lease under which the node claimed the envelope; `nil` if the node decided alone.
    var claimGeneration: Int?
    /// The number of times that another node had the envelope.
    var claimsElsewhere = 0
    var attempts = AttemptHistory()
    var search = EnvironmentSearch()
    /// The route whose open breaker holds the envelope back.
    var heldBy: RouteTable.Number?
    /// The route whose breaker the envelope goes out to probe.
    var probed: RouteTable.Number?
    /// The outcome reported to senders that do not accept QUEUED.
    private(set) var lastRefusal = unreachable
    /// The first of the submissions that wait for the outcome.
    private var firstReply: Reply?
    /// The other submissions that wait for the outcome.
    private var otherReplies: [Reply] = []
    /// Number of replies at which unwanted replies are removed: a client that reconnects and resends leaves a reply
    /// behind.
    private var nextPurge = 16

    private static let unreachable = Outcome.retry(.providerUnreachable, after: 60_000)

    /// Maximum number of submissions that may wait for the outcome of one envelope.
    private static let maxReplies = 256

    init(
        _ envelope: Envelope, token: TableKey, route: RouteTable.Number, format: EnvelopeFormat, origin: Origin,
        expiry: Expiry,
        taken: MonotonicTime, sequence: UInt64, pair: TableKey?
    ) {
        digest = envelope.digest
        self.token = token
        collapse = CollapseOrder.key(of: envelope, token)
        size = envelope.ciphertext.count
        self.envelope = envelope
        self.route = route
        self.format = format
        self.origin = origin
        self.expiry = expiry
        self.taken = taken
        self.sequence = sequence
        self.pair = pair
    }

    private var replyCount: Int { (firstReply == nil ? 0 : 1) + otherReplies.count }

    /// Adds a submission that waits for the outcome.
    /// - Parameter isWanted: whether a sender still waits for the outcome of a submission.
    func attach(_ reply: Reply, isWanted: (Reply) -> Bool, _ actions: inout Deque<DeliveryAction>) {
        if replyCount >= nextPurge {
            let unwanted = otherReplies.filter { !isWanted($0) }
            otherReplies.removeAll { unwanted.contains($0) }
            for other in unwanted { actions.append(.tell(other, .retry(.nodeBusy, after: 10_000), contact)) }
            nextPurge = max(16, replyCount * 2)
        }
        guard replyCount < Self.maxReplies else {
            let refusal = Outcome.retry(.nodeBusy, after: 10_000, text: "too many submissions wait for this outcome")
            return actions.append(.tell(reply, refusal, .notContacted))
        }
        if row != nil, reply.acceptsQueued { actions.append(.tell(reply, Outcome(.queued), .notContacted)) }
        guard isInMemory || reply.acceptsQueued else {
            return actions.append(.tell(reply, lastRefusal, .notContacted))
        }
        if firstReply == nil { firstReply = reply } else { otherReplies.append(reply) }
    }

    /// Records the row of a stored envelope, and reports QUEUED, once, to senders that accept it.
    func becameStored(_ row: Int64, _ actions: inout Deque<DeliveryAction>) {
        let isFirst = self.row == nil
        self.row = row
        guard isFirst else { return }
        for reply in replies where reply.acceptsQueued { actions.append(.tell(reply, Outcome(.queued), .notContacted)) }
    }

    /// Reports `refusal` to senders that do not accept QUEUED, because the envelope has to wait in the spool.
    func rejectUnqueued(with refusal: Outcome, _ actions: inout Deque<DeliveryAction>) {
        lastRefusal = refusal
        for reply in replies where !reply.acceptsQueued { actions.append(.tell(reply, refusal, contact)) }
        if firstReply?.acceptsQueued == false { firstReply = nil }
        otherReplies.removeAll { !$0.acceptsQueued }
    }

    /// Reports that the envelope waits in the spool, because nothing can be delivered now.
    func tellParked(_ actions: inout Deque<DeliveryAction>) {
        for reply in replies { actions.append(.tellParked(reply)) }
    }

    /// Reports the final outcome.
    func finish(_ outcome: Outcome, _ actions: inout Deque<DeliveryAction>) {
        if let firstReply { actions.append(.tell(firstReply, outcome, contact)) }
        for reply in otherReplies { actions.append(.tell(reply, outcome, contact)) }
    }

    /// The submission that brought the envelope here; `nil` if an earlier process did.
    var originalReply: Reply? { firstReply }

    private var replies: [Reply] { (firstReply.map { [$0] } ?? []) + otherReplies }
}
