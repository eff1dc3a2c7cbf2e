// SPDX-License-Identifier: Apache-2.0

import DequeModule
import HeapModule
import Time

/// When each row of the spool is read again, and how many envelopes are in memory because of the spool.
struct SpoolSchedule {
    /// How often to check whether the app of a stored envelope is configured again.
    static let unservedPause = Duration.seconds(300)
    /// Maximum number of rows read from the spool at a time.
    private static let rowsPerLoad = 256
    private static let pauseAfterFailedLoad = Duration.seconds(1)

    /// Whether the spool is in use.
    private(set) var isOpen = false
    private var due: Heap<DueRow> = []
    /// Rows are not read before this time; `nil` while rows are being read, and before the spool is open.
    private var loadsFrom: MonotonicTime?
    /// Whether rows may be read: from ``open(_:at:replayTime:)`` until ``stopLoading()``.
    private var mayLoad = false
    /// The parked envelopes, by row.
    var parked: [Int64: PendingEnvelope] = [:]
    /// Number of envelopes in memory that were read from the spool or taken over from another node.
    var loadedRows = 0
    /// Number of rows that are being read.
    private(set) var readingRows = 0
    /// Number of envelopes in memory that count as ``Custody/Use/storing``.
    var storing = 0
    /// Number of envelopes that are planned to be stored or being written, including writes whose envelope has ended
    /// since.
    var plansAndWrites = 0
    /// The plans in the order of their ends, which is that of their beginnings. Includes some whose envelope is no
    /// longer planned to be stored.
    private var plans: Deque<(end: MonotonicTime, envelope: PendingEnvelope)> = []
    /// Number of rows of an earlier process that have not been read.
    private(set) var unreadRows = 0
    /// Number of unreadable rows that the spool has dropped.
    var unreadableRows = 0
    /// Until when an envelope that arrives may be a resend of one that an earlier process delivered.
    private var recoversUntil = MonotonicTime(nanoseconds: 0)
    /// Why the spool is full; `nil` if it has room.
    var shortage: SpoolShortage?
    private var hasRoom = true

    /// Begins with the rows of an earlier process, which are due at once.
    /// - Parameter replayTime: how long a resend of an envelope that an earlier process delivered may come.
    mutating func open(_ rows: [Int64], at now: MonotonicTime, replayTime: Duration) {
        for row in rows { due.insert(DueRow(time: MonotonicTime(nanoseconds: 0), row: row, isUnread: true)) }
        unreadRows = rows.count
        recoversUntil = now + replayTime
        isOpen = true
        mayLoad = true
        loadsFrom = MonotonicTime(nanoseconds: 0)
    }

    // MARK: Plans

    /// When ``takeOverduePlan(at:)`` may return an envelope; `nil` if never.
    var nextStore: MonotonicTime? { plans.first?.end }

    /// Adds an envelope that is planned to be stored at `end`, which is not before that of any other plan.
    mutating func addPlan(_ envelope: PendingEnvelope, until end: MonotonicTime) {
        plans.append((end, envelope))
    }

    /// Removes and returns an envelope whose time to be stored has come.
    mutating func takeOverduePlan(at now: MonotonicTime) -> PendingEnvelope? {
        removeEndedPlans()
        guard let first = plans.first, first.end <= now else { return nil }
        return plans.removeFirst().envelope
    }

    /// Removes plans from the front whose envelope is no longer planned to be stored.
    mutating func removeEndedPlans() {
        while let first = plans.first, !first.envelope.custody.isPlanned { plans.removeFirst() }
    }

    // MARK: Rows

    /// From now on, ``takeDue(at:room:)`` returns no rows.
    mutating func stopLoading() { mayLoad = false }

    /// Whether an envelope that arrives now may be a resend of one that an earlier process stored or delivered.
    func mayHoldResends(at now: MonotonicTime) -> Bool { isOpen && (now < recoversUntil || unreadRows > 0) }

    /// When ``takeDue(at:room:)`` may return rows; `nil` while none wait, rows are being read or memory has no room,
    /// and after ``stopLoading()``.
    var nextLoad: MonotonicTime? {
        guard mayLoad, hasRoom, let loadsFrom, let first = due.min else { return nil }
        return max(first.time, loadsFrom)
    }

    mutating func add(_ row: Int64, at time: MonotonicTime) { due.insert(DueRow(time: time, row: row)) }

    /// Removes and returns the rows to read now. ``readEnded(_:failed:at:)`` must follow unless there are none.
    /// - Parameter room: how many rows memory has room for. Without room, the next event after an envelope has left
    ///   memory calls this again.
    mutating func takeDue(at now: MonotonicTime, room: Int) -> [DueRow] {
        let room = min(Self.rowsPerLoad, room)
        hasRoom = room > 0
        guard let next = nextLoad, next <= now else { return [] }
        var rows: [DueRow] = []
        while rows.count < room, let first = due.min, first.time <= now { rows.append(due.removeMin()) }
        if !rows.isEmpty { loadsFrom = nil }
        readingRows = rows.count
        return rows
    }

    /// Records that rows were read, or schedules them again if that failed.
    mutating func readEnded(_ rows: [DueRow], failed: Bool, at now: MonotonicTime) {
        readingRows = 0
        loadsFrom = failed ? now + Self.pauseAfterFailedLoad : now
        if failed {
            for row in rows { due.insert(row) }
        } else {
            unreadRows -= rows.count(where: \.isUnread)
        }
    }
}
