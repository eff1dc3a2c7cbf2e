// SPDX-License-Identifier: Apache-2.0

import Cryptography
import DequeModule
import Providers
import TNP
import Tables
import Time

/// An accepted envelope that has no final outcome yet.
final class PendingEnvelope: @unchecked Sendable {
    // Unchecked: only its dispatch uses it, on the loop's thread.

    /// A place among all pending envelopes.
    typealias Slot = Slab<PendingEnvelope>.Handle

    /// What was accepted; it never changes.
    struct Content {
        let digest: Digest256
        /// The key of the device token.
        let token: TableKey
        /// The key of the device token and the collapse id; `nil` without a collapse id.
        let collapse: TableKey?
        /// Bytes of the ciphertext.
        let size: Int
        let format: EnvelopeFormat
        let acceptedAt: MonotonicTime
        /// Position in the order of acceptance: envelopes of an earlier process have lower numbers than those of this
        /// process; one of another node has the number of the time when it was accepted.
        let sequence: UInt64
        /// The key of device token and iv, reserved in the replay window; `nil` if none is reserved.
        let ivKey: TableKey?
    }

    /// What the envelope waits for.
    enum Phase: Equatable {
        /// Nothing: an event is being handled.
        case active
        /// The right to deliver it, which one node of the cluster has.
        case claiming
        /// The spool stores it, and nothing else may happen before.
        case storing
        /// The spool looks up whether an earlier process knew it.
        case lookingUp
        /// The spool looks up the envelope's row to delete it: the other nodes of the cluster already know this outcome.
        indirect case lookingUpRow(of: Outcome)
        /// A turn in a lane's queue, since this time.
        case queued(since: MonotonicTime)
        /// The answer of a lane's provider.
        case attempting(Attempt)
        /// The end of a pause between two attempts or two claims.
        case paused(until: MonotonicTime)
        /// Its time in the spool's schedule; it takes no memory for its content.
        case parked
    }

    /// An attempt in flight.
    struct Attempt: Equatable {
        let route: RouteTable.Number
        /// The generation of the lane.
        let generation: Int
        /// Whether the attempt probes a half-open breaker.
        let isProbe: Bool
        /// When the envelope entered the lane's queue, and when it left the queue.
        let queued, started: MonotonicTime
    }

    /// How far the delivery has come.
    struct Progress {
        var attempts = AttemptHistory()
        var search = EnvironmentSearch()
        /// Whether the envelope has reached a provider, or had to leave a queue for lack of room.
        var contact = ProviderContact.notContacted
        /// The route whose open breaker holds the envelope back.
        var heldBy: RouteTable.Number?
        /// The route whose breaker this envelope is chosen to probe.
        var probed: RouteTable.Number?
        /// How long the envelope has to wait in the spool when it is stored, and the outcome for senders that do not accept
        /// QUEUED.
        var wait: (delay: Duration, refusal: Outcome)?
    }

    /// Whether the envelope waits for the spool or for the end of a pause: no claim, turn or attempt that could end it
    /// is in progress.
    var waits: Bool {
        switch phase {
        case .storing, .lookingUp, .paused: true
        default: false
        }
    }

    /// Set once the envelope is in the ``PendingTable``.
    var slot = Slot(rawValue: .max)
    let content: Content
    /// The destination that the sender chose. For a push endpoint, it may change when delivery begins.
    var route: RouteTable.Number
    var origin: Origin
    var expiry: Expiry
    var phase = Phase.active
    var custody: Custody
    var claim = EnvelopeClaim.open()
    private(set) var replies = ReplyList()
    var progress = Progress()

    init(
        _ envelope: Envelope, token: TableKey, route: RouteTable.Number, format: EnvelopeFormat, origin: Origin,
        expiry: Expiry, acceptedAt: MonotonicTime, sequence: UInt64, ivKey: TableKey?
    ) {
        content = Content(
            digest: envelope.digest, token: token, collapse: CollapseOrder.key(of: envelope, token),
            size: envelope.ciphertext.count, format: format, acceptedAt: acceptedAt, sequence: sequence,
            ivKey: ivKey)
        custody = Custody(envelope)
        self.route = route
        self.origin = origin
        self.expiry = expiry
    }

    /// Adds a submission that waits for the outcome.
    /// - Parameter isWanted: whether a sender still waits for the outcome of a submission.
    func attach(_ reply: Reply, isWanted: (Reply) -> Bool, _ actions: inout Deque<DeliveryAction>) {
        let contact = progress.contact
        replies.purge(keeping: isWanted) { actions.append(.tell($0, .retry(.nodeBusy, after: 10_000), contact)) }
        guard replies.hasRoom else {
            let refusal = Outcome.retry(.nodeBusy, after: 10_000, text: "too many submissions wait for this outcome")
            return actions.append(.tell(reply, refusal, .notContacted))
        }
        if custody.row != nil, reply.acceptsQueued {
            actions.append(.tell(reply, Outcome(.queued), .notContacted))
        }
        guard custody.isInMemory || reply.acceptsQueued else {
            return actions.append(.tell(reply, replies.lastRefusal, .notContacted))
        }
        replies.append(reply)
    }

    /// Records the row of the stored envelope, and reports QUEUED, once, to senders that accept it.
    func becameStored(_ row: Custody.Row, _ actions: inout Deque<DeliveryAction>) {
        guard custody.stored(in: row) else { return }
        replies.forEach { if $0.acceptsQueued { actions.append(.tell($0, Outcome(.queued), .notContacted)) } }
    }

    /// Reports `refusal` to senders that do not accept QUEUED, because the envelope has to wait in the spool.
    /// - Returns: whether the submission that brought the envelope was one of them.
    func rejectUnqueued(with refusal: Outcome, _ actions: inout Deque<DeliveryAction>) -> Bool {
        let contact = progress.contact
        return replies.rejectUnqueued(with: refusal) { actions.append(.tell($0, refusal, contact)) }
    }

    /// Reports to all submissions that the envelope waits in the spool.
    func tellParked(_ actions: inout Deque<DeliveryAction>) {
        replies.forEach { actions.append(.tellParked($0)) }
    }

    /// Reports the final outcome to all submissions.
    func tell(_ outcome: Outcome, _ actions: inout Deque<DeliveryAction>) {
        replies.forEach { actions.append(.tell($0, outcome, progress.contact)) }
    }

    /// Records that an earlier process or another node of the cluster has accepted the envelope, and promised its outcome.
    func becameRecovered() { replies.isRecovered = true }
}
