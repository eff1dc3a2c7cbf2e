// SPDX-License-Identifier: Apache-2.0

import Admission
import Cluster
import Cryptography
import Delivery
import EventLoop
import Handles
import Ingress
import TNP
import Tables
import Time

/// Takes each submission through these gates, in this order. Earlier gates cost the node less, or reveal less about
/// device tokens:
///
/// 1. the form of its fields (`IngressSession`, `AppResolver`), before it gets here;
/// 2. its circuit: not blocked, and within its rate;
/// 3. a resend of an envelope that the node knows gets that envelope's outcome;
/// 4. platform, shutdown, size and the breaker of the route: the same for every device token;
/// 5. proof of work and signature: the same for every device token;
/// 6. room in the node: the same for every device token;
/// 7. limits, and what is known about the device token (`Admission.admit`); in a cluster, `ClusterGate` decides this one.
///
/// Gates 1 to 6, and the rate limits of gate 7, answer the same for a device token that the node serves and for one it has
/// never seen.
final class Intake {
    let shared: IntakeState
    private let dispatch: Dispatch
    let loop: EventLoop
    /// `nil` if the node keeps no handles.
    let handles: HandleKeeper?
    /// `nil` if the node belongs to no cluster.
    let cluster: ClusterOutcomes?
    private let metrics: NodeMetrics
    private let log: EventLog
    let refusals: RefusalReporter
    /// The effort announced to all senders.
    private var announcedEffort: UInt32
    /// The effort required for unproven device tokens when efforts were last announced.
    private var announcedUnprovenEffort: UInt32 = 0

    init(
        _ shared: IntakeState, handles: HandleKeeper?, into dispatch: Dispatch, sharing cluster: ClusterOutcomes?,
        _ refusals: RefusalReporter, metrics: NodeMetrics, log: EventLog
    ) {
        self.shared = shared
        self.cluster = cluster
        announcedEffort = shared.admission.puzzle(at: .now).effort
        self.dispatch = dispatch
        loop = dispatch.loop
        self.handles = handles
        self.refusals = refusals
        self.metrics = metrics
        self.log = log
    }

    // MARK: The gates

    /// Admits a submission and submits it for delivery, or refuses it.
    func admit(_ submission: Submission, app: String, format: EnvelopeFormat, from connection: any SenderConnection) {
        guard let circuit = connection.circuit else { return }
        let start = loop.readClock()
        metrics.record(start - connection.lastRead, in: .ingress)
        do throws(Refusal) {
            try shared.admission.checkCircuit(circuit, at: start)
            try admitPastCircuit(submission, app: app, format: format, from: connection, on: circuit, at: start)
        } catch {
            metrics.record(loop.readClock() - start, in: .admission)
            refuse(submission, app: app, error, on: connection)
        }
    }

    /// Takes a submission through the gates after the circuit's.
    /// - Parameters:
    ///   - sender: `nil` if the submission names a device token instead of a handle.
    ///   - start: the time when the submission reached its first gate.
    func admitPastCircuit(
        _ submission: Submission, app: String, format: EnvelopeFormat, by sender: HandleSender? = nil,
        from connection: any SenderConnection, on circuit: CircuitID, at start: MonotonicTime
    ) throws(Refusal) {
        switch dispatch.arrival(of: submission.envelope, app: app, acceptsQueued: submission.acceptQueued, at: start) {
        case .resend:
            dispatch.repeatOutcome(
                of: submission.envelope, to: addWaiting(WaitingSubmission(submission, from: connection), submission))
        case .refused(let outcome):
            // A TNP sender makes the envelope itself, and can know that it is too large.
            let isFault = outcome.reason == .tooLarge && connection.senderProtocol == .tnp
            throw Refusal(outcome, goAway: isFault ? shared.admission.charge(circuit, at: start) : nil)
        case .new(let destination):
            var (state, origin) = try admit(
                submission, by: sender?.access, app: app, for: destination, on: circuit,
                through: connection.senderProtocol, at: shared.clock.reading(at: start))
            origin.isLookedUpAlone = sender?.isLookedUpAlone ?? false
            metrics.record(loop.readClock() - start, in: .admission)
            // The outcome matters even if the sender disconnects: it may change the standing of the device token.
            dispatch.submit(
                submission.envelope, for: destination, format: format, from: origin,
                addWaiting(
                    WaitingSubmission(
                        submission, from: connection, state, Route(app: app, magic: submission.envelope.magic),
                        by: sender), submission))
        }
    }

    private func admit(
        _ submission: Submission, by access: HandleAccess?, app: String, for destination: Dispatch.Destination,
        on circuit: CircuitID, through senderProtocol: Admission.SenderProtocol, at now: ClockReading
    ) throws(Refusal) -> (WaitingSubmission.State, Origin) {
        let effort = try shared.admission.verify(
            submission, by: access, on: circuit, through: senderProtocol, at: now.monotonic)
        let unproven = Origin(circuit: circuit, effort: effort)
        if let outcome = dispatch.capacityRefusal(
            of: submission.envelope, for: destination, acceptsQueued: submission.acceptQueued, from: unproven,
            at: now.monotonic)
        {
            shared.admission.recordLackOfRoom(paid: effort, through: senderProtocol)
            throw Refusal(outcome)
        }
        var terms = shared.admission.terms(
            of: submission, by: access, paid: effort, app: app, on: circuit, through: senderProtocol)
        if cluster != nil {
            try shared.admission.checkNode(&terms, at: now.monotonic)
            return (.asking(terms), unproven)
        }
        let ticket = try shared.admission.admit(terms, at: now)
        return (.admitted(ticket), Origin(circuit: circuit, effort: effort, isProven: !ticket.isUnproven))
    }

    private func addWaiting(_ waiting: WaitingSubmission, _ submission: Submission) -> Reply {
        shared.waiting.insert(waiting, acceptsQueued: submission.acceptQueued)
    }

    func refuse(_ submission: Submission, app: String, _ refusal: Refusal, on connection: any SenderConnection) {
        if let outcome = refusal.outcome {
            metrics.answered(
                outcome, of: Route(app: app, magic: submission.envelope.magic), at: connection.senderProtocol.rawValue)
        }
        refusals.report(refusal, to: submission.request, on: connection)
    }

    // MARK: Connections

    /// Assigns a connection to a circuit.
    /// - Returns: the GOAWAY to reject the connection with, if the circuit is blocked, has too many connections, or
    ///   there are too many circuits; else `nil`.
    func connected(_ connection: any SenderConnection, as circuit: CircuitID) -> GoAway? {
        if let goAway = shared.admission.connected(circuit, at: loop.now) { return goAway }
        connection.circuit = circuit
        return nil
    }

    /// Assigns a connection to another circuit.
    /// - Returns: whether the circuit takes it.
    func move(_ connection: any SenderConnection, to circuit: CircuitID) -> Bool {
        guard shared.admission.connected(circuit, at: loop.now) == nil else { return false }
        if let before = connection.circuit { shared.admission.disconnected(before, at: loop.now) }
        connection.circuit = circuit
        return true
    }

    /// Charges violations of the protocol to the connection's circuit.
    func charge(_ connection: any SenderConnection, violations: Int) {
        guard let circuit = connection.circuit else { return }
        var goAway: GoAway?
        for _ in 0..<violations { goAway = shared.admission.charge(circuit, at: loop.now) ?? goAway }
        if let goAway { refusals.reject(connection, goAway) }
    }

    /// The features and the puzzle that WELCOME announces.
    /// - Parameter takesSiteKeys: whether the node knows sites.
    func announcement(takesSiteKeys: Bool) -> (features: Welcome.Features, puzzle: Puzzle) {
        let puzzle = shared.admission.puzzle(at: loop.now)
        var features: Welcome.Features = dispatch.canQueue ? .durableQueue : []
        if puzzle.effort > 0 { features.insert(.proofOfWork) }
        switch shared.settings.senders {
        case .off: break
        case .optional: features.insert(.senderKeys)
        case .required: features.formUnion([.senderKeys, .senderKeysRequired])
        }
        if handles != nil { features.insert(.handles) }
        if takesSiteKeys { features.insert(.siteKeys) }
        return (features, puzzle)
    }

    // MARK: Once a second

    /// Advances clocks, efforts and tables.
    /// - Parameter announce: sends a puzzle to all connections, or only to those that have one of their own.
    func tick(announce: (Puzzle, _ toOwnPuzzlesOnly: Bool) -> Void) {
        shared.clock.observe(wall: UnixTime.now, at: loop.now)
        let isChanged = shared.admission.tick(queue: dispatch.load, at: shared.reading) {
            SecureRandom.bytes(Puzzle.seedLength)
        }
        if isChanged { announcePuzzle(announce) }
        if shared.admission.efforts.unproven != announcedUnprovenEffort {
            announcedUnprovenEffort = shared.admission.efforts.unproven
            // Unproven tokens require no more effort than others: this puzzle replaces those that were sent with
            // refusals.
            if shared.admission.efforts.unproven == shared.admission.efforts.all {
                announce(shared.admission.puzzle(at: loop.now), true)
            }
        }
        if let handles {
            handles.secondPassed(at: shared.reading.unix)
            metrics.show(handles: handles.use.count)
        }
        metrics.show(shared.admission.efforts, known: shared.admission.known)
    }

    /// Announces the current puzzle to all connections.
    func announcePuzzle(_ announce: (Puzzle, _ toOwnPuzzlesOnly: Bool) -> Void) {
        let puzzle = shared.admission.puzzle(at: loop.now)
        if (puzzle.effort == 0) != (announcedEffort == 0) { log.proofOfWork(effort: puzzle.effort) }
        announcedEffort = puzzle.effort
        announce(puzzle, false)
    }
}
