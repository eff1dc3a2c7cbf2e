// SPDX-License-Identifier: Apache-2.0

import Cryptography
import DequeModule
import Providers
import TNP
import Tables
import Time

/// Delivery with the spool. What Apple and Google answer soon is never written: a new envelope is planned to be stored, and
/// is written when it has to wait, or is not answered within ``storeDelay``. Its sender, which still waits, gets QUEUED
/// then. A stored envelope is either in memory or parked: its row is due at some time, or a lane with an open breaker holds
/// its row.
extension DeliveryCore {
    /// For how long an envelope that its sender still waits for is not written. Apple and Google usually answer within it; a
    /// crash loses only envelopes whose senders had no answer.
    static let storeDelay = Duration.milliseconds(500)
    /// How long a held row waits for the result of another probe.
    static let probePause = Duration.seconds(1)
    /// The answer while the spool is full or fails.
    static let spoolIsFull = Outcome.retry(.nodeBusy, after: 60_000, text: "the node currently cannot store envelopes")

    /// Delivers the stored envelopes, and stores new ones whose senders accept QUEUED.
    /// - Parameters:
    ///   - rows: the rows of an earlier process.
    ///   - hasOutcomes: whether the spool remembers outcomes of an earlier process.
    mutating func openSpool(_ rows: [Int64], hasOutcomes: Bool, at now: ClockReading) {
        dates.begin(after: rows.max() ?? 0, at: now.unix)
        schedule.open(
            rows, at: now.monotonic, replayTime: hasOutcomes ? .seconds(limits.replaySeconds) : .zero)
        settle(now)
    }

    /// Whether one more envelope may be stored.
    var canStore: Bool { schedule.plansAndWrites < limits.totalInFlight && !isFull }

    /// Whether memory and spool together hold as many envelopes as they may.
    var isFull: Bool { envelopes.count + schedule.unreadRows >= limits.totalInFlight + limits.maximumStored }

    /// What the spool stores of an envelope; `nil` if it is not in memory, or cannot be stored.
    func spooled(_ pending: PendingEnvelope) -> SpooledEnvelope? {
        guard let envelope = pending.custody.envelope, case .at(let expires) = pending.expiry else { return nil }
        return SpooledEnvelope(
            app: lanes.routes[pending.route].app, format: pending.content.format, envelope: envelope,
            expires: max(1, dates.wall(expires)))
    }

    // MARK: Planning

    mutating func planStore(of pending: PendingEnvelope) {
        pending.custody.plan()
        schedule.plansAndWrites += 1
        count(pending, as: .storing)
    }

    /// Delivers an envelope that is not stored yet, and stores it later if it is not answered soon; stores it first if memory
    /// has no room, or no sender waits for it.
    mutating func deliverOrStore(_ pending: PendingEnvelope, _ now: ClockReading) {
        if pending.custody.isPlanned {
            guard pending.replies.first != nil, hasRoom(for: pending.route) else { return waitForStore(pending) }
            schedule.addPlan(pending, until: now.monotonic + Self.storeDelay)
        }
        deliver(pending, now)
    }

    /// Writes an envelope that is planned to be stored.
    mutating func store(_ pending: PendingEnvelope) {
        guard pending.custody.isPlanned else { return }
        pending.custody.beginWrite()
        actions.append(.store(pending))
    }

    /// Stores an envelope, unless that has begun, and does nothing else with it until it is stored.
    mutating func waitForStore(_ pending: PendingEnvelope) {
        pending.phase = .storing
        if pending.custody.use == .none { count(pending, as: .storing) }
        store(pending)
    }

    /// Writes the envelopes that were not answered soon.
    mutating func storeOverdue(_ now: MonotonicTime) {
        while let pending = schedule.takeOverduePlan(at: now) { store(pending) }
    }

    /// Ends the plan or the write of an envelope that needs no row any more.
    /// - Parameters:
    ///   - outcome: the final outcome; `nil` if this node does not deliver the envelope.
    ///   - keepUntil: Unix time in seconds until which the spool remembers the outcome if it is writing the envelope;
    ///     `nil` if it does not.
    mutating func stopStoring(_ pending: PendingEnvelope, _ outcome: Outcome? = nil, keepUntil: Int64? = nil) {
        if pending.custody.isPlanned {
            pending.custody.cancelPlan()
            schedule.plansAndWrites -= 1
        }
        pending.custody.abandonWrite(Custody.Removal(outcome: outcome ?? Self.busy, keepUntil: keepUntil))
        if pending.custody.use == .storing { count(pending, as: .none) }
    }

    // MARK: Results of the spool

    /// Handles the result of ``DeliveryAction/store(_:)``.
    mutating func stored(_ pending: PendingEnvelope, _ result: StoreResult, at now: ClockReading) {
        schedule.plansAndWrites -= 1
        if let removal = pending.custody.writeEnded() {
            if case .stored(let row) = result { removeNeedless(row, of: pending, removal) }
            return settle(now)
        }
        switch result {
        case .stored(let row):
            becameStored(pending, Custody.Row(id: row, isOfThisProcess: true))
            if pending.phase == .storing { continueStored(pending, now) }
        case .alreadyStored(let row) where pending.phase == .storing: adoptRow(pending, row, now)
        case .alreadyStored(let row): becameStored(pending, Custody.Row(id: row))
        case .alreadyFinal(let outcome): if pending.waits { finish(pending, outcome, now) }
        case .full(let why):
            noteShortage(why)
            refused(pending, why.text, now)
        case .failed(let reason): refused(pending, reason, now)
        }
        settle(now)
    }

    /// Removes a row whose envelope ended while the row was written. If the sender has resent the envelope since, the
    /// resend takes the row over.
    private mutating func removeNeedless(_ row: Int64, of ended: PendingEnvelope, _ removal: Custody.Removal) {
        if let resend = envelopes[ended.content.digest] {
            becameStored(resend, Custody.Row(id: row, isOfThisProcess: true))
        } else {
            actions.append(.erase(row: row, ended.content.digest, removal.outcome, keepUntil: removal.keepUntil))
        }
    }

    /// Continues with an envelope that waited for the spool and is stored: delivers it if memory has room, or parks it.
    private mutating func continueStored(_ pending: PendingEnvelope, _ now: ClockReading) {
        if isDraining { return stop(pending, now) }
        if let wait = pending.progress.wait {
            pending.progress.wait = nil
            return park(pending, for: wait.delay, wait.refusal, now)
        }
        guard hasRoom(for: pending.route), holdsClaim(pending, now) else {
            return park(pending, for: .zero, Self.busy, now)
        }
        deliver(pending, now)
    }

    /// Lets an envelope that is or will be in the spool wait there, out of memory, if its pause is long or a breaker
    /// holds it back.
    /// - Returns: whether it waits there.
    mutating func waitsInSpool(
        _ pending: PendingEnvelope, _ delay: Duration, _ refusal: Outcome, _ now: ClockReading
    ) -> Bool {
        guard pending.custody.isForSpool, delay >= Self.maximumPauseInMemory || pending.progress.heldBy != nil else {
            return false
        }
        if pending.custody.row != nil {
            park(pending, for: delay, refusal, now)
        } else {
            pending.progress.wait = (delay, refusal)
            waitForStore(pending)
        }
        return true
    }

    /// What a look-up in the spool found; a failure has a text that says why.
    enum Found {
        case known(Spool.Known)
        case failed(String)
    }

    /// Handles the result of ``DeliveryAction/lookUp(_:)``.
    mutating func lookedUp(_ pending: PendingEnvelope, _ found: Found, at now: ClockReading) {
        if case .lookingUpRow(let outcome) = pending.phase {
            if case .known(.stored(let row)) = found { _ = pending.custody.stored(in: Custody.Row(id: row)) }
            finish(pending, outcome, now)
            return settle(now)
        }
        guard pending.phase == .lookingUp else { return }
        switch found {
        case .known(.nothing): deliverOrStore(pending, now)
        case .known(.stored(let row)): adoptRow(pending, row, now)
        case .known(.final(let outcome)): finish(pending, outcome, now)
        case .failed(let reason): refused(pending, reason, now)
        }
        settle(now)
    }

    /// Refuses an envelope that the spool could not store or look up. If its row was loaded meanwhile, an earlier
    /// process promised delivery, and the envelope is delivered. An attempt in flight goes on, and the envelope is then one
    /// that is not stored.
    private mutating func refused(_ pending: PendingEnvelope, _ reason: String, _ now: ClockReading) {
        actions.append(.observe(.spoolRefused(reason)))
        guard pending.waits else { return }
        if pending.custody.row != nil { return continueStored(pending, now) }
        finish(pending, Self.spoolIsFull, now)
    }

    /// Takes over the row of an earlier process. If the row was loaded meanwhile, this pending envelope already has it
    /// and is delivered; otherwise the envelope is parked, which lists the row as due a second time and does no harm.
    private mutating func adoptRow(_ pending: PendingEnvelope, _ row: Int64, _ now: ClockReading) {
        let isRead = pending.custody.row != nil
        becameStored(pending, Custody.Row(id: row))
        if isRead { return continueStored(pending, now) }
        // Without an expiry the envelope cannot be shared; the row has one, so the node claims the envelope again when
        // it has read the row.
        if pending.expiry == .nowOrNever { pending.claim = .open() }
        park(pending, for: .zero, Self.busy, now)
    }

    private mutating func becameStored(_ pending: PendingEnvelope, _ row: Custody.Row) {
        // The row of an earlier process may be found while the envelope is still planned to be stored.
        if pending.custody.isPlanned { stopStoring(pending) }
        dates.stored(row.id)
        pending.becameStored(row, &actions)
        if pending.claim.isHeld { share(pending) }
    }

    // MARK: Shortage

    /// Records that the spool is full, until ``updateShortage(_:)`` finds room.
    mutating func noteShortage(_ why: SpoolShortage) {
        guard schedule.shortage != why else { return }
        schedule.shortage = why
        actions.append(.observe(.spoolShortage(why)))
    }

    /// Checks whether a full spool has room again; if not, removes expired rows.
    /// - Parameter shortage: why the spool is full, as it reports itself.
    mutating func updateShortage(_ shortage: SpoolShortage?) {
        // Requires 1/64 of the room to be free, so that the shortage does not begin again at once.
        let most = limits.totalInFlight + limits.maximumStored
        guard shortage == nil, envelopes.count + schedule.unreadRows <= most - max(1, most / 64) else {
            return actions.append(.purgeSpool)
        }
        schedule.shortage = nil
        actions.append(.observe(.spoolShortage(nil)))
    }

    // MARK: Parking

    /// Releases a stored envelope's memory until it is due.
    /// - Parameter refusal: the outcome for senders that do not accept QUEUED.
    mutating func park(_ pending: PendingEnvelope, for delay: Duration, _ refusal: Outcome, _ now: ClockReading) {
        guard let row = pending.custody.row else { return }
        if pending.rejectUnqueued(with: refusal, &actions) {
            // With its submission, the envelope's claim has ended; nobody else reports its outcome.
            pending.claim = .open()
            pending.becameRecovered()
        }
        if pending.progress.heldBy != nil || delay >= Self.maximumPauseInMemory { pending.tellParked(&actions) }
        leaveMemory(pending, now)
        pending.phase = .parked
        schedule.parked[row] = pending
        if let route = pending.progress.heldBy, let lane = lanes[route], !isDraining {
            pending.progress.heldBy = nil
            lane.heldRows.append(row)
            sendProbe(on: route, now)
        } else {
            schedule.add(row, at: now.monotonic + delay)
        }
    }

    /// Schedules one of the rows that a lane holds as the next probe, or makes all of them due if the breaker is
    /// closed.
    mutating func sendProbe(on route: RouteTable.Number, _ now: ClockReading) {
        guard let lane = lanes[route] else { return }
        if lane.breaker.state == .closed { return releaseHeld(of: lane, now) }
        while lane.probeRow == nil, let row = nextProbe(of: lane, on: route, now) {
            // A row that was removed or has expired would probe nothing; a row may be another lane's probe already.
            guard let pending = schedule.parked[row], pending.progress.probed == nil else { continue }
            if pending.expiry.hasPassed(at: now.unix) {
                schedule.parked[row] = nil
                finish(pending, .rejected(.ttlRanOut), now)
                continue
            }
            lane.probeRow = row
            pending.progress.probed = route
            // If another envelope's probe is in flight, this allows time for its result.
            let earliest = lane.breaker.isProbing ? now.monotonic + Self.probePause : now.monotonic
            schedule.add(row, at: max(earliest, lane.breaker.openUntil))
        }
    }

    /// How many of a lane's held rows are looked at for the next probe.
    private static let probeCandidates = 32

    /// Removes and returns the held row that most likely succeeds. First come phones that the push service has accepted
    /// before, then unknown ones, then paused ones, and last the phone whose attempt opened the breaker.
    private func nextProbe(of lane: Lane, on route: RouteTable.Number, _ now: ClockReading) -> Int64? {
        let app = lanes.routes.app(of: route)
        func rank(_ row: Int64) -> Int {
            guard let phone = schedule.parked[row]?.content.token else { return 0 }
            if phone == lane.lastFailed { return 3 }
            if devices.pause(of: phone, now: now.monotonic) != nil { return 2 }
            return (devices.record(of: phone, app: app)?.accepted ?? 0) > 0 ? 0 : 1
        }
        let candidates = lane.heldRows.prefix(Self.probeCandidates)
        guard let best = candidates.indices.min(by: { rank(candidates[$0]) < rank(candidates[$1]) }) else { return nil }
        return lane.heldRows.remove(at: best)
    }

    /// Makes all rows that a lane holds due.
    private mutating func releaseHeld(of lane: Lane, _ now: ClockReading) {
        for row in lane.heldRows { schedule.add(row, at: now.monotonic) }
        lane.heldRows = []
        lane.probeRow = nil
    }

    /// If the envelope is its lane's probe, ends that role, so that another envelope can become the probe.
    mutating func endProbe(_ pending: PendingEnvelope, _ now: ClockReading) {
        guard let route = pending.progress.probed else { return }
        pending.progress.probed = nil
        guard let lane = lanes[route], lane.probeRow == pending.custody.row else { return }
        lane.probeRow = nil
        sendProbe(on: route, now)
    }

    // MARK: Loading

    /// Asks for the due rows, as many as memory has room for.
    mutating func loadDue(_ now: ClockReading) {
        // Senders wait for the other envelopes in memory, so rows only use room that these leave.
        let spare = limits.totalInFlight - (inFlight - schedule.storing)
        let rows = schedule.takeDue(
            at: now.monotonic, room: min(spare, max(1, limits.totalInFlight / 2) - schedule.loadedRows))
        if !rows.isEmpty { actions.append(.load(rows)) }
    }

    /// Handles the rows that ``DeliveryAction/load(_:)`` has read, and starts their delivery.
    /// - Parameter dropped: the number of unreadable rows that the spool has dropped in all.
    mutating func loaded(
        _ rows: [DueRow], _ found: [(id: Int64, envelope: SpooledEnvelope)], dropped: Int, at now: ClockReading
    ) {
        schedule.readEnded(rows, failed: false, at: now.monotonic)
        for (row, stored) in found { resume(row, stored, now) }
        if found.count < rows.count { forget(Set(rows.map(\.row)).subtracting(found.map(\.id)), dropped, now) }
        settle(now)
    }

    /// Handles a failure to read rows: they are read again later.
    mutating func loadFailed(_ rows: [DueRow], _ reason: String, at now: ClockReading) {
        actions.append(.observe(.spoolRefused(reason)))
        schedule.readEnded(rows, failed: true, at: now.monotonic)
        settle(now)
    }

    private mutating func resume(_ row: Int64, _ stored: SpooledEnvelope, _ now: ClockReading) {
        let envelope = stored.envelope
        let expiry = Expiry.at(dates.expiry(ofRow: row, stored, now: now.unix))
        if let pending = schedule.parked.removeValue(forKey: row) {
            // The stored expiry applies, even if a resend had another ttl; but if this process wrote the row, the
            // expiry in memory applies.
            if !pending.custody.isOfThisProcess { pending.expiry = expiry }
            enterMemory(pending, envelope)
            if holdsClaim(pending, now) { return deliver(pending, now) }
            pending.claim = .open()
            claimAndBegin(pending, now)
        } else if let pending = envelopes[envelope.digest] {
            // A resend arrived while the row was being read, and the resend's delivery continues.
            pending.expiry = expiry
            becameStored(pending, Custody.Row(id: row))
        } else if window.outcome(of: envelope, now: now.monotonic) == nil {
            // If there is an outcome, the row was listed twice, and its removal is not on disk yet.
            let pending = recovered(stored, expiry, sequence: UInt64(row), now)
            _ = pending.custody.stored(in: Custody.Row(id: row))
            claimAndBegin(pending, now)
        }
    }

    /// Makes a pending envelope of one that an earlier process or another node has accepted, and counts it in memory.
    mutating func recovered(
        _ stored: SpooledEnvelope, _ expiry: Expiry, sequence: UInt64, _ now: ClockReading
    ) -> PendingEnvelope {
        let envelope = stored.envelope
        let token = TableKey(envelope.phone)
        let pending = PendingEnvelope(
            envelope, token: token, route: route(of: envelope, app: stored.app, at: now), format: stored.format,
            origin: Origin(circuit: .storedEnvelopes(phone: token.hash)),
            expiry: expiry, acceptedAt: now.monotonic, sequence: sequence,
            ivKey: window.claim(envelope, token, now: now.monotonic))
        pending.becameRecovered()
        envelopes.insert(pending)
        enterMemory(pending, envelope)
        return pending
    }

    /// Ends the parked envelopes whose rows could not be read: they are gone or were dropped as unreadable.
    private mutating func forget(_ rows: Set<Int64>, _ dropped: Int, _ now: ClockReading) {
        for row in rows {
            if let pending = schedule.parked.removeValue(forKey: row) {
                complete(pending, .retry(.internalError, after: Self.busyRetry), now)
            }
        }
        guard dropped > schedule.unreadableRows else { return }
        schedule.unreadableRows = dropped
        actions.append(.observe(.spoolUnreadable(dropped)))
    }

    /// Ends envelopes whose rows expired and were removed to make room.
    mutating func expired(_ rows: [Int64], at now: ClockReading) {
        for row in rows {
            if let pending = schedule.parked.removeValue(forKey: row) { complete(pending, .rejected(.ttlRanOut), now) }
        }
        settle(now)
    }
}
