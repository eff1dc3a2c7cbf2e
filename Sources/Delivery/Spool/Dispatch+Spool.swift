// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Providers
import TNP
import Time

/// What lies in the spool: a pendingEnvelope is in memory and carried by one task, or parked, its row on the list of those to
/// come or kept back by a lane whose breaker is open.
extension Dispatch {
    /// Rows that are read from the spool at a time.
    private static let rowsPerLoad = 256
    private static let pauseAfterFailedLoad = Duration.seconds(1)
    private static let probePause = Duration.seconds(1)

    /// Delivers what lies in the spool, and stores there what senders allow.
    /// - Throws: ``SpoolError`` where it cannot be read.
    package func use(_ spool: Spool) async throws {
        let entries = try await spool.index()
        for entry in entries {
            due.insert(DueRow(time: MonotonicTime(nanoseconds: 0), row: entry.id, isUnread: true))
        }
        unreadRows = entries.count
        recoversUntil = .now + .seconds(limits.replaySeconds)
        self.spool = spool
        pump = Timer(on: loop) { [unowned self] in assumeIsolated { $0.loadDue() } }
        loadDue()
    }

    /// Whether an envelope that comes now may be a resend of what an earlier process stored or delivered.
    func mayBeOfAnEarlierProcess(_ clock: MonotonicTime) -> Bool { clock < recoversUntil || unreadRows > 0 }

    /// Whether one more may be stored.
    var canStore: Bool { storing < limits.totalInFlight && !holdsAllItMay }

    /// Whether there are as many as memory and spool may hold.
    var holdsAllItMay: Bool { pendingEnvelopes.count + unreadRows >= limits.totalInFlight + limits.stored }

    func store(_ pendingEnvelope: PendingEnvelope, _ envelope: Envelope) async {
        guard let spool, case .at(let expires) = pendingEnvelope.expiry else {
            return await carry(pendingEnvelope, envelope)
        }
        storing += 1
        let result = await spool.store(
            SpooledEnvelope(
                app: pendingEnvelope.route.app, format: pendingEnvelope.format, envelope: envelope, expires: expires))
        storing -= 1
        switch result {
        case .stored(let row):
            pendingEnvelope.becameStored(row)
            if hasRoom(for: pendingEnvelope.route) {
                await carry(pendingEnvelope, envelope)
            } else {
                park(pendingEnvelope, for: .zero, Self.busy)
            }
        case .alreadyStored(let row): await join(pendingEnvelope, envelope, row)
        case .alreadyFinal(let outcome): finish(pendingEnvelope, outcome)
        case .full(let why):
            noteShortage(why)
            await refused(pendingEnvelope, envelope, why.text)
        case .failed(let reason): await refused(pendingEnvelope, envelope, reason)
        }
    }

    /// The spool takes no more, until ``endShortage()`` finds that it does.
    func noteShortage(_ why: SpoolShortage) {
        guard shortage != why else { return }
        shortage = why
        observer(.spoolShort(why))
    }

    /// What is answered while the spool takes no more.
    static let spoolIsFull = Outcome.retry(
        .nodeBusy, after: 60_000, text: "the node's store takes no more at present")

    /// Looks whether the spool takes envelopes again, and has it give up what has expired. To be called each second.
    func endShortage() {
        guard shortage != nil, let spool else { return }
        // Some room is left between the end and the next beginning, so that they do not alternate.
        let most = limits.totalInFlight + limits.stored
        guard spool.shortage == nil, pendingEnvelopes.count + unreadRows <= most - max(1, most / 64) else {
            return spool.purge()
        }
        shortage = nil
        observer(.spoolShort(nil))
    }

    /// The spool has no word on it. Where its row has been read meanwhile, it is an old promise and is kept.
    private func refused(_ pendingEnvelope: PendingEnvelope, _ envelope: Envelope, _ reason: String) async {
        observer(.spoolRefused(reason))
        if pendingEnvelope.row != nil { return await carry(pendingEnvelope, envelope) }
        finish(pendingEnvelope, Self.spoolIsFull)
    }

    /// What is not to be stored may still be a resend of what an earlier process stored, or delivered.
    func recover(_ pendingEnvelope: PendingEnvelope, _ envelope: Envelope) async {
        let known: Spool.Known
        do {
            known = try await spool?.lookup(envelope.digest) ?? .nothing
        } catch {
            return await refused(pendingEnvelope, envelope, "\(error)")
        }
        switch known {
        case .nothing: await carry(pendingEnvelope, envelope)
        case .stored(let row): await join(pendingEnvelope, envelope, row)
        case .final(let outcome): finish(pendingEnvelope, outcome)
        }
    }

    /// The row is an earlier process's. Where it has been read meanwhile, this pendingEnvelope has it already and is the one to be
    /// carried; else it is listed once more, which does no harm.
    private func join(_ pendingEnvelope: PendingEnvelope, _ envelope: Envelope, _ row: Int64) async {
        let isRead = pendingEnvelope.row != nil
        pendingEnvelope.becameStored(row)
        if isRead { await carry(pendingEnvelope, envelope) } else { park(pendingEnvelope, for: .zero, Self.busy) }
    }

    private static let busy = Outcome.retry(.nodeBusy, after: busyRetry)

    /// Lets go of the envelope until its time comes: the spool has it.
    /// - Parameter refusal: for those who do not accept that it waits there.
    func park(_ pendingEnvelope: PendingEnvelope, for delay: Duration, _ refusal: Outcome) {
        guard let row = pendingEnvelope.row else { return }
        pendingEnvelope.rejectImpatient(with: refusal)
        leaveMemory(pendingEnvelope)
        parked[row] = pendingEnvelope
        if let lane = pendingEnvelope.heldBy, !isDraining {
            pendingEnvelope.heldBy = nil
            lane.held.append(row)
            sendProbe(of: lane)
        } else {
            due.insert(DueRow(time: .now + delay, row: row))
        }
        loadDue()
    }

    /// Of the rows that a lane keeps back, lets one go when the breaker will let a probe through, and all when it is
    /// closed.
    func sendProbe(of lane: Lane) {
        if lane.breaker.state == .closed || lanes[lane.route] !== lane { return releaseHeld(lane) }
        let clock = MonotonicTime.now
        while lane.probe == nil, let row = lane.held.popFirst() {
            // Removed meanwhile, or its time is over: neither would find anything out.
            guard let pendingEnvelope = parked[row] else { continue }
            if pendingEnvelope.expiry.hasPassed(at: now()) {
                parked[row] = nil
                finish(pendingEnvelope, .rejected(.ttlRanOut))
                continue
            }
            lane.probe = row
            pendingEnvelope.probes = lane
            // Where somebody else's probe is out, there is something to know in a while.
            let earliest = lane.breaker.isProbing ? clock + Self.probePause : clock
            due.insert(DueRow(time: max(earliest, lane.breaker.opensUntil), row: row))
        }
        loadDue()
    }

    func releaseHeld(_ lane: Lane) {
        let clock = MonotonicTime.now
        for row in lane.held { due.insert(DueRow(time: clock, row: row)) }
        lane.held = []
        lane.probe = nil
        loadDue()
    }

    /// Brings rows whose time has come back into memory, as far as there is room.
    func loadDue() {
        guard !isDraining, !isLoading, let spool, let pump, let next = due.min else { return }
        let clock = MonotonicTime.now
        guard next.time <= clock else { return pump.start(after: next.time - clock) }
        // Whoever leaves memory next calls again.
        let room = min(Self.rowsPerLoad, max(1, limits.totalInFlight / 2) - loadedRows)
        guard room > 0 else { return }
        var rows: [DueRow] = []
        while rows.count < room, let first = due.min, first.time <= clock { rows.append(due.removeMin()) }
        isLoading = true
        Task {
            let isRead = await load(rows, from: spool)
            isLoading = false
            if isRead { loadDue() } else { self.pump?.start(after: Self.pauseAfterFailedLoad) }
        }
    }

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
        if let pendingEnvelope = parked.removeValue(forKey: row) {
            // The first promise stands, whatever a resend has asked for.
            pendingEnvelope.expiry = .at(stored.expires)
            pendingEnvelope.envelope = envelope
            start(pendingEnvelope, envelope)
        } else if let pendingEnvelope = pendingEnvelopes[envelope.digest] {
            // A resend has come while the row was being read: whoever has the pendingEnvelope carries it.
            pendingEnvelope.becameStored(row)
            pendingEnvelope.expiry = .at(stored.expires)
        } else if window.outcome(of: envelope, now: .now) == nil {
            // Else it was listed twice, and its end is on its way to the disk.
            let pair = window.claim(envelope, now: .now)
            let pendingEnvelope = PendingEnvelope(
                envelope, route: Route(app: stored.app, magic: envelope.magic), format: stored.format,
                origin: Origin(circuit: .phone(envelope.deviceToken.tableKey)), expiry: .at(stored.expires),
                taken: .now, sequence: UInt64(row), pair: pair)
            pendingEnvelope.row = row
            pendingEnvelope.isRecovered = true
            pendingEnvelopes[pendingEnvelope.digest] = pendingEnvelope
            start(pendingEnvelope, envelope)
        }
    }

    private func start(_ pendingEnvelope: PendingEnvelope, _ envelope: Envelope) {
        inFlight += 1
        loadedRows += 1
        pendingEnvelope.isLoaded = true
        Task(executorPreference: loop) { await self.carry(pendingEnvelope, envelope) }
    }

    /// Rows that are there no more: removed to make room, or unreadable.
    private func forget(_ rows: Set<Int64>) {
        for row in rows {
            if let pendingEnvelope = parked.removeValue(forKey: row) {
                end(pendingEnvelope, .retry(.internalError, after: Self.busyRetry))
            }
        }
        guard let spool, spool.dropped > unreadable else { return }
        unreadable = spool.dropped
        observer(.spoolUnreadable(unreadable))
    }

    /// Rows that were removed to make room, their time being over.
    package func expired(_ rows: [Int64]) {
        for row in rows {
            if let pendingEnvelope = parked.removeValue(forKey: row) { end(pendingEnvelope, .rejected(.ttlRanOut)) }
        }
    }
}
