// SPDX-License-Identifier: Apache-2.0

import Admission
import Cryptography
import Store
import Time

/// Loads what is known about device tokens at the start, and saves the changes while the node runs.
final class StandingKeeper {
    /// Maximum rows in one transaction: the store's write-ahead log grows with the size of a transaction.
    private static let rowsPerSave = 5000
    /// Days by which the clock may be ahead of the last use of any device token, e.g. after the node was off.
    private static let longestIdleDays: Int64 = 30

    private let store: StandingStore
    private let log: EventLog
    private var isSaving = false

    /// - Throws: `StoreError`.
    init(state: String, log: EventLog) throws {
        store = try StandingStore.open(at: "\(state)/standing.sqlite", keyFile: "\(state)/standing.key")
        self.log = log
    }

    /// The key under which device tokens are hashed.
    var hash: KeyedHash { KeyedHash(key: store.key) }

    /// Restores all rows.
    /// - Parameter clock: is held back if it is far ahead of the last use of any device token: a clock that is wrong at
    ///   the start must not make bindings of sender keys expire.
    func restore(into admission: inout Admission, _ clock: inout GuardedClock) throws {
        var isFirst = true
        try store.load { row in
            // The rows come in the order of their last use, latest first.
            if isFirst { holdBack(&clock, ifFarAfter: row.day) }
            isFirst = false
            admission.restore(row, on: clock.reading(at: .now))
        }
    }

    private func holdBack(_ clock: inout GuardedClock, ifFarAfter day: UInt16) {
        let secondsPerDay: Int64 = 86_400
        let idleDays = clock.reading(at: .now).unix / secondsPerDay - Int64(day)
        guard idleDays > Self.longestIdleDays else { return }
        clock.assumeAhead(by: (idleDays - Self.longestIdleDays) * secondsPerDay)
        log.clockMayBeAhead(idleDays: idleDays)
    }

    /// Takes the next changes to save, unless a save is in progress; ``save(_:of:isolation:)`` follows.
    func changesToSave(of admission: inout Admission) -> Admission.Changes? {
        guard !isSaving, let changes = admission.takeChanges(atMost: Self.rowsPerSave) else { return nil }
        isSaving = true
        return changes
    }

    /// Saves changes; queues them again if that fails.
    func save(
        _ changes: Admission.Changes, of intake: Intake, isolation: isolated (any Actor)? = #isolation
    ) async {
        _ = await write(changes, of: intake)
        isSaving = false
    }

    private func write(
        _ changes: Admission.Changes, of intake: Intake, isolation: isolated (any Actor)? = #isolation
    ) async -> Bool {
        do {
            try await store.save(changes.rows, forgetting: changes.forgotten)
            return true
        } catch {
            intake.admission.requeue(changes)
            log.standingNotSaved(error)
            return false
        }
    }

    /// Saves all changes and closes the store.
    func close(savingChangesOf intake: Intake, isolation: isolated (any Actor)? = #isolation) async {
        // The store runs one save after another, so a save in progress ends first.
        while let changes = intake.admission.takeChanges(atMost: Self.rowsPerSave) {
            guard await write(changes, of: intake) else { break }
        }
        await store.close()
    }
}
