// SPDX-License-Identifier: Apache-2.0

import HeapModule
import Providers
import TNP
import Tables
import Time

/// The answer to a claim: whether this node may deliver the envelope.
package enum ClaimResult: Sendable {
    /// This node delivers the envelope. `isProven` says whether its device token is proven; `nil` if the claim admitted
    /// no submission. `isAlone` says that the node decided without the other nodes: it asks them before it goes on with
    /// a stored envelope.
    case granted(isProven: Bool?, isAlone: Bool = false)
    /// The nodes together refuse the submission. A resend is a new submission.
    case refused(Outcome)
    /// The envelope already has this outcome.
    case final(Outcome)
    /// Another living node delivers the envelope, and its outcome is not known yet.
    case elsewhere
    /// The nodes cannot be asked now, and another one may have taken over the envelope.
    case undecided
}

/// How long the claims of this node hold: until some time after its last heartbeat, when other nodes may take over its
/// envelopes.
struct ClaimLease {
    /// Changes when other nodes may have taken over what this node had claimed before.
    private(set) var generation = 0
    /// When the claims end, unless the node gives another heartbeat.
    private var end = MonotonicTime(nanoseconds: 0)

    /// Records a heartbeat.
    /// - Parameter isNew: whether the claims before it may have ended.
    mutating func renew(until end: MonotonicTime, isNew: Bool) {
        if isNew { generation += 1 }
        self.end = end
    }

    /// Whether a claim of this generation holds; a claim that the other nodes do not know has the generation `nil`, and
    /// does not.
    func holds(_ generation: Int?, at now: MonotonicTime) -> Bool { generation == self.generation && now < end }
}

/// Claims envelopes among the nodes of a cluster.
package protocol EnvelopeClaims: AnyObject {
    /// Asks for the right to deliver an envelope, and passes the result to ``Dispatch/claimed(_:_:)``, at once or later.
    /// - Parameters:
    ///   - number: the number of the envelope.
    ///   - app: the name of its app.
    ///   - reply: the first submission that waits for its outcome; `nil` if there is none.
    func claim(_ number: UInt64, _ envelope: Envelope, app: String, for reply: Reply?)

    /// Shares an envelope that this node has stored, so that another one can deliver it if this one ends.
    func stored(_ envelope: SpooledEnvelope)
}

/// Claims: in a cluster, a sender may send an envelope to one node after another, so each node claims an envelope
/// before it delivers it.
extension DeliveryCore {
    /// The first and the longest pause before the node asks again for an envelope that another node has.
    private static let (firstPause, maximumPause) = (Duration.milliseconds(250), Duration.seconds(2))
    /// The pause before the node asks again for a stored envelope that another node has. If that node ends, others get its
    /// stored envelopes at once.
    private static let storedPause = Duration.seconds(30)
    /// The pause before the node asks again if it could not be told whether another node has a stored envelope.
    private static let undecidedPause = Duration.seconds(5)
    private static let elsewhere = Outcome.retry(
        .nodeBusy, after: 10_000, text: "another node is still trying to deliver this envelope")

    /// Claims an envelope that is in memory; outside a cluster, its delivery begins at once.
    mutating func claimAndBegin(_ pending: PendingEnvelope, _ now: ClockReading) {
        guard usesClaims else { return begin(pending, now) }
        pending.phase = .claiming
        actions.append(.claim(pending))
    }

    /// Whether no other node can have taken over an envelope.
    func holdsClaim(_ pending: PendingEnvelope, _ now: ClockReading) -> Bool {
        guard usesClaims else { return true }
        guard case .held(let generation) = pending.claim else { return false }
        return lease.holds(generation, at: now.monotonic)
    }

    /// Claims an envelope again that another node had.
    mutating func claimAgain(_ pending: PendingEnvelope, _ now: ClockReading) {
        let isLate = pending.custody.row == nil && now.monotonic - pending.content.acceptedAt > limits.retry.patience
        guard !isLate, !isDraining else { return refuse(pending, Self.elsewhere, now) }
        claimAndBegin(pending, now)
    }

    /// Handles the result of ``DeliveryAction/claim(_:)``.
    mutating func claimed(_ number: UInt64, _ result: ClaimResult, at now: ClockReading) {
        guard let pending = envelopes[number: number], pending.phase == .claiming else { return }
        pending.phase = .active
        switch result {
        case .granted(let isProven, let isAlone):
            if let isProven { pending.origin.isProven = isProven }
            pending.claim = .held(generation: isAlone ? nil : lease.generation)
            // The engine may have lost it since this node shared it.
            if pending.custody.row != nil { share(pending) }
            begin(pending, now)
        case .undecided where pending.custody.row != nil:
            // Its row may have been loaded while the node asked.
            stopStoring(pending)
            park(pending, for: Self.undecidedPause, Self.busy, now)
        // Only an envelope that was taken over from another node can have no row here, and the engine still has that.
        case .undecided: refuse(pending, Self.busy, now)
        case .final(let outcome):
            stopStoring(pending)
            if pending.custody.row == nil, schedule.mayHoldResends(at: now.monotonic) {
                // An earlier process may have stored it, and its row must go as well.
                pending.phase = .lookingUpRow(of: outcome)
                actions.append(.lookUp(pending))
            } else {
                finish(pending, outcome, now)
            }
        case .refused(let outcome): refuse(pending, outcome, now)
        case .elsewhere where isDraining || pending.custody.row != nil || pending.replies.isRecovered:
            refuse(pending, Self.elsewhere, now)
        case .elsewhere:
            var before = 0
            if case .open(let times) = pending.claim { before = times }
            pending.claim = .open(timesElsewhere: before + 1)
            let factor = 1 << min(before, 3)
            let until = now.monotonic + min(Self.firstPause * factor, Self.maximumPause)
            pending.phase = .paused(until: until)
            paused.insert(Pause(until: until, sequence: pending.content.sequence, envelope: pending))
        }
        settle(now)
    }

    /// Ends an envelope that this node does not deliver; a stored one waits in the spool.
    private mutating func refuse(_ pending: PendingEnvelope, _ outcome: Outcome, _ now: ClockReading) {
        stopStoring(pending)
        if pending.custody.row != nil { return park(pending, for: Self.storedPause, outcome, now) }
        if pending.replies.isRecovered { reportRecovered(pending, outcome) }
        leaveMemory(pending, now)
        complete(pending, outcome, isRemembered: false, now)
    }

    // MARK: Stored envelopes of other nodes

    /// Shares a stored envelope with the other nodes.
    mutating func share(_ pending: PendingEnvelope) {
        if let stored = spooled(pending) { actions.append(.share(stored)) }
    }

    /// How many stored envelopes of nodes that have ended this node can take.
    var roomToAdopt: Int {
        guard schedule.isOpen, schedule.shortage == nil, !isDraining, canStore else { return 0 }
        return max(0, limits.totalInFlight / 2 - schedule.loadedRows - schedule.readingRows)
    }

    /// Takes a stored envelope of a node that has ended: stores and delivers it.
    /// - Returns: whether the node has taken it.
    mutating func adopt(_ stored: SpooledEnvelope, at now: ClockReading) -> Bool {
        defer { settle(now) }
        let envelope = stored.envelope
        if let pending = envelopes[envelope.digest] {
            // This node has it as well, and may have left it to the other node.
            if let row = pending.custody.row, pending.phase == .parked, !holdsClaim(pending, now) {
                schedule.add(row, at: now.monotonic)
            }
            return false
        }
        if let outcome = window.outcome(of: envelope, now: now.monotonic) {
            // The other nodes do not know this outcome.
            actions.append(.observe(.recovered(envelope, app: stored.app, outcome)))
            return false
        }
        guard roomToAdopt > 0, waitForReplayWindow(now.monotonic) == nil else { return false }
        let expiry = dates.expiry(ofRow: nil, stored, now: now.unix)
        // Envelopes of several nodes with the same collapse id keep the order in which the nodes have accepted them:
        // the age follows from the expiry, which the accepting node has set.
        let age = UInt64(max(0, Int64(envelope.ttl) - (expiry - now.unix)))
        let sinceEpoch = now.monotonic.nanoseconds
        let accepted = MonotonicTime(
            nanoseconds: sinceEpoch - min(age, sinceEpoch / 1_000_000_000) * 1_000_000_000)
        let pending = recovered(stored, .at(expiry), sequence: Self.sequence(at: accepted), now)
        planStore(of: pending)
        claimAndBegin(pending, now)
        return true
    }
}
