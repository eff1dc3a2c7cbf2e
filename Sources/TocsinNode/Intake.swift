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

/// Takes each submission through these gates, in this order. Earlier gates cost the node less, or reveal less:
///
/// 1. the form of its fields (`IngressSession`, `AppResolver`), before it gets here;
/// 2. its circuit: not blocked, and within its rate;
/// 3. a resend of an envelope that the node knows gets that envelope's outcome;
/// 4. platform, size and circuit breaker: the same for every device token;
/// 5. proof of work and signature: the same for every device token;
/// 6. room in the node: the same for every device token;
/// 7. limits, and what is known about the device token. Up to here, and here if a limit is reached, a device token that
///    the node serves and one it has never seen get the same refusal (`Admission.admit`).
final class Intake: OutcomeReceiver {
    /// A submission that waits for its outcome.
    private struct WaitingSubmission {
        /// Whether the submission was admitted.
        enum State {
            /// A resend of an envelope that was admitted before.
            case resend
            /// The nodes of the cluster decide together.
            case asking(Admission.Terms)
            case admitted(Admission.Ticket)
            /// The nodes of the cluster have refused it.
            case refused(Refusal)
        }

        /// The number of its connection, which may have closed.
        let connection: UInt64
        let request: UInt32
        let senderProtocol: Admission.SenderProtocol
        var state: State
        /// The envelope's keys in the engine, once the node has asked it.
        var keys: EnvelopeKeys?
        /// `nil` for a resend.
        let route: Route?
        /// `nil` if the sender has used the device token.
        let use: HandleUse?
    }

    /// What the node knows about a sender that has used a handle.
    struct HandleUse {
        let handle: Handle
        let access: HandleAccess
        /// Whether the store knows that the handle is in use today.
        let isSaved: Bool
        /// Whose handle it is, if it is not confirmed.
        let confirming: HandleBounds.Owner?
    }

    private let dispatch: Dispatch
    let loop: EventLoop
    /// `nil` if the node keeps no handles.
    let handles: HandleKeeper?
    /// `nil` if the node belongs to no cluster.
    let ledger: ClusterLedger?
    private let metrics: NodeMetrics
    private let log: EventLog
    var admission: Admission
    /// The settings of admission; in a cluster, those of all nodes together.
    var settings: AdmissionSettings { didSet { applySettings() } }
    /// Whether this node of a cluster decides without the others.
    private var decidesAlone = false
    private var clock: GuardedClock
    private var waiting = Slab<WaitingSubmission>()
    /// The connections that the outcomes are reported to; they live as long as this.
    unowned var senders: SenderConnections?
    /// The effort announced to all senders.
    private var announcedEffort: UInt32
    /// The effort required for unproven device tokens when efforts were last announced.
    private var announcedUnprovenEffort: UInt32 = 0

    init(
        _ admission: consuming Admission, _ clock: GuardedClock, handles: HandleKeeper?, into dispatch: Dispatch,
        sharing ledger: ClusterLedger? = nil, metrics: NodeMetrics, log: EventLog
    ) {
        self.ledger = ledger
        announcedEffort = admission.puzzle(at: .now).effort
        settings = admission.settings
        self.admission = admission
        self.clock = clock
        self.dispatch = dispatch
        loop = dispatch.loop
        self.handles = handles
        self.metrics = metrics
        self.log = log
    }

    /// The current time by both clocks, as admission counts it.
    var reading: ClockReading { clock.reading(at: loop.now) }

    // MARK: The gates

    /// Admits a submission and submits it for delivery, or refuses it.
    func take(_ submission: Submission, app: String, format: EnvelopeFormat, from connection: any SenderConnection) {
        guard let circuit = connection.circuit else { return }
        let start = loop.readClock()
        metrics.record(start - connection.lastRead, in: .ingress)
        do throws(Refusal) {
            try admission.checkCircuit(circuit, at: start)
            try deliver(submission, app: app, format: format, from: connection, on: circuit, at: start)
        } catch {
            metrics.record(loop.readClock() - start, in: .admission)
            refuse(submission, app: app, error, on: connection)
        }
    }

    /// Takes a submission through the gates after the circuit's.
    /// - Parameters:
    ///   - use: `nil` if the sender has used the device token.
    ///   - start: the time when the submission reached its first gate.
    func deliver(
        _ submission: Submission, app: String, format: EnvelopeFormat, by use: HandleUse? = nil,
        from connection: any SenderConnection, on circuit: CircuitID, at start: MonotonicTime
    ) throws(Refusal) {
        switch dispatch.arrival(of: submission.envelope, app: app, acceptsQueued: submission.acceptQueued, at: start) {
        case .resend:
            dispatch.repeatOutcome(of: submission.envelope, to: reply(to: submission, from: connection))
        case .refused(let outcome):
            // A sender of TNP could have known that the envelope is too large.
            let isFault = outcome.reason == .tooLarge && connection.senderProtocol == .tnp
            throw Refusal(outcome, goAway: isFault ? admission.charge(circuit, at: start) : nil)
        case .new(let destination):
            let (state, origin) = try admit(
                submission, by: use?.access, app: app, for: destination, on: circuit,
                through: connection.senderProtocol, at: clock.reading(at: start))
            metrics.record(loop.readClock() - start, in: .admission)
            // The outcome matters even if the sender disconnects: it may change the standing of the device token.
            dispatch.submit(
                submission.envelope, for: destination, format: format, from: origin,
                reply(
                    to: submission, from: connection, state, Route(app: app, magic: submission.envelope.magic), use))
        }
    }

    private func admit(
        _ submission: Submission, by access: HandleAccess?, app: String, for destination: Dispatch.Destination,
        on circuit: CircuitID, through senderProtocol: Admission.SenderProtocol, at now: ClockReading
    ) throws(Refusal) -> (WaitingSubmission.State, Origin) {
        let effort = try admission.verify(
            submission, by: access, on: circuit, through: senderProtocol, at: now.monotonic)
        let unproven = Origin(circuit: circuit, effort: effort)
        if let outcome = dispatch.capacityRefusal(
            of: submission.envelope, for: destination, acceptsQueued: submission.acceptQueued, from: unproven,
            at: now.monotonic)
        {
            admission.recordLackOfRoom(paid: effort, through: senderProtocol)
            throw Refusal(outcome)
        }
        var terms = admission.terms(
            of: submission, by: access, paid: effort, app: app, on: circuit, through: senderProtocol)
        if ledger != nil {
            try admission.checkNode(&terms, at: now.monotonic)
            return (.asking(terms), unproven)
        }
        let ticket = try admission.admit(terms, at: now)
        return (.admitted(ticket), Origin(circuit: circuit, effort: effort, isProven: !ticket.isUnproven))
    }

    /// Remembers where to report the outcomes of a submission.
    /// - Parameters:
    ///   - route: `nil` for a resend.
    ///   - use: `nil` for a resend, or if the sender has used the device token.
    private func reply(
        to submission: Submission, from connection: any SenderConnection, _ state: WaitingSubmission.State = .resend,
        _ route: Route? = nil, _ use: HandleUse? = nil
    ) -> Reply {
        let place = waiting.insert(
            WaitingSubmission(
                connection: connection.number, request: submission.request,
                senderProtocol: connection.senderProtocol, state: state, route: route, use: use))
        return Reply(number: place.rawValue, acceptsQueued: submission.acceptQueued)
    }

    func refuse(_ submission: Submission, app: String, _ refusal: Refusal, on connection: any SenderConnection) {
        if let outcome = refusal.outcome {
            metrics.answered(
                outcome, of: Route(app: app, magic: submission.envelope.magic), at: connection.senderProtocol.rawValue)
        }
        refuse(submission.request, refusal, on: connection)
    }

    func refuse(_ request: UInt32, _ refusal: Refusal, on connection: any SenderConnection) {
        metrics.refused(refusal, at: connection.senderProtocol.rawValue)
        connection.refused(request, refusal)
        if refusal.outcome?.reason == .connectionOverRate {
            connection.pauseReading(for: .milliseconds(Int64(refusal.outcome?.retryAfter ?? 0)))
        }
        if refusal.goAway != nil { recordAbuse() }
    }

    // MARK: Outcomes

    func isWanted(_ reply: Reply) -> Bool {
        let submission = waiting[Slab<WaitingSubmission>.Handle(rawValue: reply.number)]
        guard case .resend = submission.state else { return true }
        return senders?.connection(submission.connection) != nil
    }

    func finished(_ reply: Reply, _ outcome: Outcome, _ contact: ProviderContact) {
        let place = Slab<WaitingSubmission>.Handle(rawValue: reply.number)
        guard outcome.isFinal else {
            let request = waiting[place].request
            senders?.connection(waiting[place].connection)?.finished(request, outcome)
            return
        }
        guard let submission = waiting.remove(place) else { return }
        let connection = senders?.connection(submission.connection)
        if let route = submission.route {
            metrics.answered(outcome, of: route, at: submission.senderProtocol.rawValue)
        }
        switch submission.state {
        case .resend: connection?.finished(submission.request, outcome)
        case .asking(var terms):
            // Another node has delivered it, or still does.
            admission.uncheckNode(&terms, at: loop.now)
            connection?.finished(submission.request, outcome)
        case .refused(let refusal):
            if let connection { refuse(submission.request, refusal, on: connection) }
        case .admitted(let ticket): finish(submission, ticket, outcome, contact, connection)
        }
    }

    func parked(_ reply: Reply) {
        let submission = waiting[Slab<WaitingSubmission>.Handle(rawValue: reply.number)]
        senders?.connection(submission.connection)?.parked(submission.request)
    }

    private func finish(
        _ submission: WaitingSubmission, _ ticket: Admission.Ticket, _ outcome: Outcome, _ contact: ProviderContact,
        _ connection: (any SenderConnection)?
    ) {
        var mayBind = true
        if outcome.kind == .delivered, let use = submission.use, let handles {
            if !use.isSaved { handles.rang(use.handle, confirming: use.confirming) }
            mayBind = !handles.hasEnded(use.handle)
        }
        let now = reading
        if let ledger, let keys = submission.keys {
            let refund = Admission.Refund(outcome, contact: contact)
            let event = admission.event(outcome, of: ticket, binds: mayBind, at: now)
            ledger.conclude(keys, outcome, ticket, refund, event)
        }
        let goAway = admission.finish(ticket, with: outcome, contact: contact, binds: mayBind, at: now)
        connection?.finished(submission.request, admission.addingAllowance(to: outcome, of: ticket, at: now.monotonic))
        guard let goAway else { return }
        recordAbuse()
        connection?.reject(goAway)
    }

    // MARK: In a cluster

    /// A submission that waits for the decision of all nodes; `nil` for a resend.
    func terms(of reply: Reply) -> Admission.Terms? {
        guard case .asking(let terms) = waiting[Slab<WaitingSubmission>.Handle(rawValue: reply.number)].state else {
            return nil
        }
        return terms
    }

    /// Takes the decision of all nodes about a submission.
    func decided(_ reply: Reply, _ terms: Admission.Terms, _ keys: EnvelopeKeys, _ answer: ClaimAnswer) -> ClaimResult {
        let place = Slab<WaitingSubmission>.Handle(rawValue: reply.number)
        metrics.decided(alone: false)
        switch answer {
        case .claimed(let record, let used):
            return granted(place, keys, admission.admitted(terms, record, used: used, at: reading), isAlone: false)
        case .final(let sealed):
            guard let outcome = ledger?.outcome(sealed, of: keys) else { return .elsewhere }
            return .final(outcome)
        case .elsewhere, .resumed: return .elsewhere
        case .ivReused:
            var terms = terms
            admission.uncheckNode(&terms, at: loop.now)
            return refused(place, Refusal(.rejected(.ivReused)))
        case .refused(let reason): return refused(place, admission.refusal(of: terms, reason, at: reading))
        }
    }

    /// Learns whether this node decides without the others. It then applies its share of the rates, so that the sum over
    /// all nodes stays the same.
    func nodesDecide(alone: Bool) {
        guard alone != decidesAlone else { return }
        decidesAlone = alone
        applySettings()
    }

    private func applySettings() {
        ledger?.settings = settings
        admission.settings = decidesAlone ? settings.share(of: ledger?.nodes ?? 1) : settings
    }

    /// Decides about a submission without the engine.
    func decideAlone(_ reply: Reply, _ terms: Admission.Terms, _ keys: EnvelopeKeys) -> ClaimResult {
        let place = Slab<WaitingSubmission>.Handle(rawValue: reply.number)
        let now = reading
        metrics.decided(alone: true)
        var terms = terms
        admission.uncheckNode(&terms, at: now.monotonic)
        do throws(Refusal) {
            return granted(place, keys, try admission.admit(terms, at: now), isAlone: true)
        } catch {
            return refused(place, error)
        }
    }

    private func granted(
        _ place: Slab<WaitingSubmission>.Handle, _ keys: EnvelopeKeys, _ ticket: Admission.Ticket, isAlone: Bool
    ) -> ClaimResult {
        waiting[place].state = .admitted(ticket)
        waiting[place].keys = keys
        return .granted(isProven: !ticket.isUnproven, isAlone: isAlone)
    }

    private func refused(_ place: Slab<WaitingSubmission>.Handle, _ refusal: Refusal) -> ClaimResult {
        waiting[place].state = .refused(refusal)
        // A blocked circuit gets GOAWAY in place of an outcome.
        return .refused(refusal.outcome ?? .retry(.nodeBusy, after: Dispatch.busyRetry))
    }

    /// Learns what delivery reports about device tokens and circuits.
    func observe(_ event: DispatchEvent) {
        switch event {
        case .recovered(let envelope, let app, let outcome):
            admission.recordOutcome(outcome, of: envelope, app: app, at: reading)
            ledger?.conclude(envelope, app: app, outcome, at: reading)
            if outcome.kind == .delivered, let handle = envelope.handle { handles?.rang(handle) }
        case .unprovenTokenRefused(let circuit):
            // The node itself may be at fault, so the sender gets RETRY instead of the refusal. A sender that retries a
            // few such tokens when RETRY tells it to stays far below the limit; a flood does not. Once the circuit is
            // blocked, its connections are rejected when they send again.
            if admission.charge(circuit, at: loop.now) != nil { recordAbuse() }
        default: break
        }
    }

    // MARK: Connections

    /// Assigns a connection to a circuit.
    /// - Returns: the GOAWAY to reject the connection with, if the circuit is blocked or has too many.
    func connected(_ connection: any SenderConnection, as circuit: CircuitID) -> GoAway? {
        if let goAway = admission.connected(circuit, at: loop.now) { return goAway }
        connection.circuit = circuit
        return nil
    }

    /// Assigns a connection to another circuit.
    /// - Returns: whether the circuit takes it.
    func move(_ connection: any SenderConnection, to circuit: CircuitID) -> Bool {
        guard admission.connected(circuit, at: loop.now) == nil else { return false }
        if let before = connection.circuit { admission.disconnected(before, at: loop.now) }
        connection.circuit = circuit
        return true
    }

    /// Charges violations of the protocol to the connection's circuit.
    func charge(_ connection: any SenderConnection, violations: Int) {
        guard let circuit = connection.circuit else { return }
        var goAway: GoAway?
        for _ in 0..<violations { goAway = admission.charge(circuit, at: loop.now) ?? goAway }
        guard let goAway else { return }
        recordAbuse()
        connection.reject(goAway)
    }

    private func recordAbuse() {
        metrics.countAbuse()
        log.circuitBlocked()
    }

    /// The features and the puzzle that WELCOME announces.
    var announcement: (features: Welcome.Features, puzzle: Puzzle) {
        let puzzle = admission.puzzle(at: loop.now)
        var features: Welcome.Features = dispatch.canQueue ? .durableQueue : []
        if puzzle.effort > 0 { features.insert(.proofOfWork) }
        switch settings.senders {
        case .off: break
        case .optional: features.insert(.senderKeys)
        case .required: features.formUnion([.senderKeys, .senderKeysRequired])
        }
        if handles != nil { features.insert(.handles) }
        if let senders, senders.takesSiteKeys { features.insert(.siteKeys) }
        return (features, puzzle)
    }

    // MARK: Once a second

    /// Advances clocks, efforts and tables.
    /// - Parameter announce: sends a puzzle to all connections, or only to those that have one of their own.
    func tick(announce: (Puzzle, _ toOwnPuzzlesOnly: Bool) -> Void) {
        clock.observe(wall: UnixTime.now, at: loop.now)
        let isChanged = admission.tick(queue: dispatch.load, at: reading) { SecureRandom.bytes(Puzzle.seedLength) }
        if isChanged { announcePuzzle(announce) }
        if admission.efforts.unproven != announcedUnprovenEffort {
            announcedUnprovenEffort = admission.efforts.unproven
            // Unproven tokens no longer require more effort: replaces the puzzles that were sent with a refusal.
            if admission.efforts.unproven == admission.efforts.all { announce(admission.puzzle(at: loop.now), true) }
        }
        if let handles {
            handles.secondPassed(at: reading.unix)
            metrics.show(handles: handles.count)
        }
        metrics.show(admission.efforts, known: admission.known)
    }

    /// Announces the current puzzle to all connections.
    func announcePuzzle(_ announce: (Puzzle, _ toOwnPuzzlesOnly: Bool) -> Void) {
        let puzzle = admission.puzzle(at: loop.now)
        if (puzzle.effort == 0) != (announcedEffort == 0) { log.proofOfWork(effort: puzzle.effort) }
        announcedEffort = puzzle.effort
        announce(puzzle, false)
    }
}
