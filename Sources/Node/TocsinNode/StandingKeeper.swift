// SPDX-License-Identifier: Apache-2.0

import Admission
import Cryptography
import NodeConfiguration
import Settings
import Store
import Time

/// Loads what is known about device tokens at the start, and saves the changes while the node runs.
final class StandingKeeper {
    /// Maximum records in one transaction. More than a node learns in a second, so that what is not saved stays bounded; a
    /// transaction copies them, and each page of the store that it changes, to the write-ahead log.
    private static let maximumRecordsPerTransaction = 150_000
    /// Days by which the clock may be ahead of the last use of any device token, e.g. after the node was off.
    private static let maximumIdleDays: Int64 = 30

    /// Up to so many changes are saved after a second. More are a burst of new phones, and take part in a larger
    /// transaction: one that writes many neighbours costs a fraction for each.
    private static let usualChanges = 5000
    /// So many are saved after a second, too: before the list is full.
    private static let manyChanges = 50_000
    /// After so many seconds all are saved.
    private static let maximumSeconds = 10

    private let store: StandingStore
    private let log: EventLog
    private var isSaving = false
    private var secondsSinceSave = 0

    /// - Parameter secret: the key of the cluster, under which all its nodes hash device tokens; `nil` for a node that
    ///   belongs to none.
    /// - Throws: `StoreError`, or `ConfigurationError` if the node has used another key before.
    init(_ configuration: Configuration, sharing secret: SecretBytes?, on disk: any Disk, log: EventLog) throws {
        let state = configuration.state
        let keyFile = "\(state)/standing.key"
        if let secret, !(try Self.adopt(secret, as: keyFile)) {
            throw ConfigurationError(
                file: configuration.file, key: "cluster.key_file",
                problem: "this node knows device tokens under another key. On the cluster's first node, copy \(keyFile)"
                    + " to cluster.key_file. Elsewhere, stop the node and remove \(state)/standing.*: it takes over"
                    + " what the cluster knows")
        }
        store = try StandingStore(at: "\(state)/standing.sqlite", keyFile: keyFile, on: disk)
        self.log = log
    }

    /// Makes the key of the cluster that of the node's own records.
    /// - Returns: `false` if these have another key.
    private static func adopt(_ secret: SecretBytes, as keyFile: String) throws(PrivateFileError) -> Bool {
        let bytes = secret.withBytes { $0.withUnsafeBytes { Array($0) } }
        do {
            return try KeyFile.read(keyFile).withBytes { $0.withUnsafeBytes { $0.elementsEqual(bytes) } }
        } catch {
            guard case .missing = error else { throw error }
            try PrivateFile.create(keyFile, holding: bytes)
            return true
        }
    }

    /// The key under which device tokens are hashed.
    var hash: KeyedHash { KeyedHash(key: store.key) }

    /// Restores all records.
    /// - Parameter clock: is set back if it is far ahead of the last use of any device token: a clock that is wrong at
    ///   the start must not make bindings of sender keys expire.
    func restore(into admission: inout Admission, _ clock: inout GuardedClock) throws {
        if let day = try store.lastDay() { holdBack(&clock, ifFarAfter: day) }
        try store.load { admission.restore($0, on: clock.reading(at: .now)) }
    }

    private func holdBack(_ clock: inout GuardedClock, ifFarAfter day: UInt16) {
        let secondsPerDay: Int64 = 86_400
        let idleDays = clock.reading(at: .now).unix / secondsPerDay - Int64(day)
        guard idleDays > Self.maximumIdleDays else { return }
        clock.assumeAhead(by: (idleDays - Self.maximumIdleDays) * secondsPerDay)
        log.clockMayBeAhead(idleDays: idleDays)
    }

    /// Whether changes are saved now.
    /// - Parameter seconds: since the last time.
    static func isTimeToSave(_ changes: Int, after seconds: Int) -> Bool {
        changes <= usualChanges || changes >= manyChanges || seconds >= maximumSeconds
    }

    /// Saves the next changes, unless a save is in progress or it is better to wait for more. Call this once a second.
    func saveChanges(of shared: IntakeState, isolation: isolated (any Actor)? = #isolation) async {
        secondsSinceSave += 1
        guard !isSaving, Self.isTimeToSave(shared.admission.unsavedCount, after: secondsSinceSave) else { return }
        isSaving = true
        secondsSinceSave = 0
        _ = await saveNext(of: shared)
        isSaving = false
    }

    /// Saves the next changes; queues them again if that fails.
    /// - Returns: whether there were changes, and they were saved.
    private func saveNext(of shared: IntakeState, isolation: isolated (any Actor)? = #isolation) async -> Bool {
        guard let changes = shared.admission.takeChanges(atMost: Self.maximumRecordsPerTransaction) else {
            return false
        }
        do {
            try await store.save(changes.records, forgetting: changes.forgotten)
            return true
        } catch {
            shared.admission.requeue(changes)
            log.standingNotSaved(error)
            return false
        }
    }

    /// Saves all changes and closes the store.
    func close(savingChangesOf shared: IntakeState, isolation: isolated (any Actor)? = #isolation) async {
        shared.admission.orderChanges()
        // The store runs one save after another, so a save in progress ends first.
        while await saveNext(of: shared) {}
        await store.close()
    }
}
