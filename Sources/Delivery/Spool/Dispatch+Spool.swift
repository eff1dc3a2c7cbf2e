// SPDX-License-Identifier: Apache-2.0

import DequeModule
import EventLoop
import HeapModule
import Providers
import TNP
import Time

/// Delivery from the spool. A pending envelope is either in memory, where one task delivers it, or parked: its row is
/// due at some time, or a lane with an open breaker holds its row.
extension Dispatch {
    /// Maximum number of rows read from the spool at a time.
    private static let rowsPerLoad = 256
    private static let pauseAfterFailedLoad = Duration.seconds(1)
    /// How long a held row waits for the result of another probe.
    private static let probePause = Duration.seconds(1)

    /// Delivers the stored envelopes, and stores new ones whose senders accept QUEUED.
    /// - Throws: `StoreError` if the spool cannot be read.
    package func use(_ spool: Spool) async throws {
        let rows = try await spool.index()
        for row in rows { due.insert(DueRow(time: MonotonicTime(nanoseconds: 0), row: row, isUnread: true)) }
        unreadRows = rows.count
        recoversUntil = .now + .seconds(limits.replaySeconds)
        self.spool = spool
        loadTimer = Timer(on: loop) { [unowned self] in assumeIsolated { $0.loadDue() } }
        loadDue()
    }

    /// Whether an envelope that arrives now may be a resend of one that an earlier process stored or delivered.
    func mayBeResendFromEarlierProcess(_ clock: MonotonicTime) -> Bool { clock < recoversUntil || unreadRows > 0 }

    /// Whether one more envelope may be stored.
    var canStore: Bool { storing < limits.totalInFlight && !isFull }

    /// Whether memory and spool together hold as many envelopes as they may.
    var isFull: Bool { pendingEnvelopes.count + unreadRows >= limits.totalInFlight + limits.maxStored }

    /// Stores an envelope, then delivers it if memory has room, or parks it.
    func store(_ pending: PendingEnvelope, _ envelope: Envelope) async {
        guard let spool, case .at(let expires) = pending.expiry else {
            return await deliver(pending, envelope)
        }
        storing += 1
        let result = await spool.store(
            SpooledEnvelope(app: pending.route.app, format: pending.format, envelope: envelope, expires: expires))
        storing -= 1
        switch result {
        case .stored(let row):
            pending.becameStored(row)
            if hasRoom(for: pending.route) {
                await deliver(pending, envelope)
            } else {
                park(pending, for: .zero, Self.busy)
            }
        case .alreadyStored(let row): await adoptRow(pending, envelope, row)
        case .alreadyFinal(let outcome): finish(pending, outcome)
        case .full(let why):
            noteShortage(why)
            await refused(pending, envelope, why.text)
        case .failed(let reason): await refused(pending, envelope, reason)
        }
    }

    /// Records that the spool is full, until ``updateShortage()`` finds room.
    func noteShortage(_ why: SpoolShortage) {
        guard shortage != why else { return }
        shortage = why
        observer(.spoolShortage(why))
    }

    /// The answer while the spool is full or fails.
    static let spoolIsFull = Outcome.retry(.nodeBusy, after: 60_000, text: "the node currently cannot store envelopes")

    /// Checks whether a full spool has room again; if not, removes expired rows. Call once a second.
    func updateShortage() {
        guard shortage != nil, let spool else { return }
        // Requires some spare room, so that the shortage does not begin again at once.
        let most = limits.totalInFlight + limits.maxStored
        guard spool.shortage == nil, pendingEnvelopes.count + unreadRows <= most - max(1, most / 64) else {
            return spool.purge()
        }
        shortage = nil
        observer(.spoolShortage(nil))
    }

    /// Refuses an envelope that the spool could not store or look up. If its row was loaded meanwhile, an earlier
    /// process promised delivery, and the envelope is delivered.
    private func refused(_ pending: PendingEnvelope, _ envelope: Envelope, _ reason: String) async {
        observer(.spoolRefused(reason))
        if pending.row != nil { return await deliver(pending, envelope) }
        finish(pending, Self.spoolIsFull)
    }

    /// Looks up an envelope that will not be stored, but may be a resend of one that an earlier process stored or
    /// delivered.
    func recover(_ pending: PendingEnvelope, _ envelope: Envelope) async {
        let known: Spool.Known
        do {
            known = try await spool?.lookup(envelope.digest) ?? .nothing
        } catch {
            return await refused(pending, envelope, "\(error)")
        }
        switch known {
        case .nothing: await deliver(pending, envelope)
        case .stored(let row): await adoptRow(pending, envelope, row)
        case .final(let outcome): finish(pending, outcome)
        }
    }

    /// Adopts the row of an earlier process. If the row was loaded meanwhile, this pending envelope has it and is
    /// delivered; otherwise the row is listed as due a second time, which does no harm.
    private func adoptRow(_ pending: PendingEnvelope, _ envelope: Envelope, _ row: Int64) async {
        let isRead = pending.row != nil
        pending.becameStored(row)
        if isRead { await deliver(pending, envelope) } else { park(pending, for: .zero, Self.busy) }
    }

    private static let busy = Outcome.retry(.nodeBusy, after: busyRetry)

    /// Releases a stored envelope's memory until it is due.
    /// - Parameter refusal: the outcome for senders that do not accept QUEUED.
    func park(_ pending: PendingEnvelope, for delay: Duration, _ refusal: Outcome) {
        guard let row = pending.row else { return }
        pending.rejectUnqueued(with: refusal)
        leaveMemory(pending)
        parked[row] = pending
        if let lane = pending.heldBy, !isDraining {
            pending.heldBy = nil
            lane.heldRows.append(row)
            sendProbe(of: lane)
        } else {
            due.insert(DueRow(time: .now + delay, row: row))
        }
        loadDue()
    }

    /// Schedules one of the rows that a lane holds as the next probe, or makes all of them due if the breaker is
    /// closed.
    func sendProbe(of lane: Lane) {
        if lane.breaker.state == .closed || lanes[lane.route] !== lane { return releaseHeld(lane) }
        let clock = MonotonicTime.now
        while lane.probeRow == nil, let row = lane.heldRows.popFirst() {
            // A row that was removed or has expired would probe nothing.
            guard let pending = parked[row] else { continue }
            if pending.expiry.hasPassed(at: now()) {
                parked[row] = nil
                finish(pending, .rejected(.ttlRanOut))
                continue
            }
            lane.probeRow = row
            pending.probedLane = lane
            // If another envelope's probe is in flight, this allows time for its result.
            let earliest = lane.breaker.isProbing ? clock + Self.probePause : clock
            due.insert(DueRow(time: max(earliest, lane.breaker.openUntil), row: row))
        }
        loadDue()
    }

    /// Makes all rows that a lane holds due.
    func releaseHeld(_ lane: Lane) {
        let clock = MonotonicTime.now
        for row in lane.heldRows { due.insert(DueRow(time: clock, row: row)) }
        lane.heldRows = []
        lane.probeRow = nil
        loadDue()
    }

    /// Loads due rows into memory, as many as there is room for.
    func loadDue() {
        guard !isDraining, !isLoading, let spool, let loadTimer, let next = due.min else { return }
        let clock = MonotonicTime.now
        guard next.time <= clock else { return loadTimer.start(after: next.time - clock) }
        // Without room, the next envelope that leaves memory calls this again.
        let room = min(Self.rowsPerLoad, max(1, limits.totalInFlight / 2) - loadedRows)
        guard room > 0 else { return }
        var rows: [DueRow] = []
        while rows.count < room, let first = due.min, first.time <= clock { rows.append(due.removeMin()) }
        isLoading = true
        Task {
            let isRead = await load(rows, from: spool)
            isLoading = false
            if isRead { loadDue() } else { self.loadTimer?.start(after: Self.pauseAfterFailedLoad) }
        }
    }

    /// Loads these rows from the spool and starts their delivery.
    /// - Returns: whether the spool could be read.
    private func load(_ rows: [DueRow], from spool: Spool) async -> Bool {
        let found: [(id: Int64, envelope: SpooledEnvelope)]
        do {
            found = try await spool.load(rows.map(\.row))
        } catch {
            observer(.spoolRefused("\(error)"))
            for row in rows { due.insert(row) }
            return false
        }
        unreadRows -= rows.count(where: \.isUnread)
        for (row, stored) in found { resume(row, stored) }
        if found.count < rows.count { forget(Set(rows.map(\.row)).subtracting(found.map(\.id))) }
        return true
    }

    private func resume(_ row: Int64, _ stored: SpooledEnvelope) {
        let envelope = stored.envelope
        if let pending = parked.removeValue(forKey: row) {
            // The stored expiry applies, even if a resend had another ttl.
            pending.expiry = .at(stored.expires)
            pending.envelope = envelope
            start(pending, envelope)
        } else if let pending = pendingEnvelopes[envelope.digest] {
            // A resend arrived while the row was being read, and the task of the resend delivers the envelope.
            pending.becameStored(row)
            pending.expiry = .at(stored.expires)
        } else if window.outcome(of: envelope, now: .now) == nil {
            // If there is an outcome, the row was listed twice, and its removal is not on disk yet.
            let pair = window.claim(envelope, now: .now)
            let pending = PendingEnvelope(
                envelope, route: Route(app: stored.app, magic: envelope.magic), format: stored.format,
                origin: Origin(circuit: .storedEnvelopes(phone: envelope.deviceToken.tableKey)),
                expiry: .at(stored.expires), taken: .now, sequence: UInt64(row), pair: pair)
            pending.row = row
            pending.isRecovered = true
            pendingEnvelopes[pending.digest] = pending
            start(pending, envelope)
        }
    }

    private func start(_ pending: PendingEnvelope, _ envelope: Envelope) {
        inFlight += 1
        loadedRows += 1
        pending.isLoaded = true
        Task(executorPreference: loop) { await self.deliver(pending, envelope) }
    }

    /// Ends envelopes whose rows are gone: removed to make room, or unreadable.
    private func forget(_ rows: Set<Int64>) {
        for row in rows {
            if let pending = parked.removeValue(forKey: row) {
                end(pending, .retry(.internalError, after: Self.busyRetry))
            }
        }
        guard let spool, spool.dropped > unreadableRows else { return }
        unreadableRows = spool.dropped
        observer(.spoolUnreadable(unreadableRows))
    }

    /// Ends envelopes whose rows expired and were removed to make room.
    package func expired(_ rows: [Int64]) {
        for row in rows {
            if let pending = parked.removeValue(forKey: row) { end(pending, .rejected(.ttlRanOut)) }
        }
    }
}
