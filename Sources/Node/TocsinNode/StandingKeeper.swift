// SPDX-License-Identifier: Apache-2.0

import Admission
import Cryptography
import NodeConfiguration
import Settings
import Store
import Time

/// Loads what is known about device tokens at the start, and saves the changes while the node runs.
final class StandingKeeper {
    /// Maximum records in one transaction: more than a node learns in a second, so that the unsaved ones stay bounded.
    /// A transaction copies them, and each page of the store that it changes, to the write-ahead log.
    private static let maximumRecordsPerTransaction = 150_000
    /// Days by which the clock may be ahead of the last use of any device token, e.g. after the node was off.
    private static let maximumIdleDays: Int64 = 30

    /// Up to this many changes are saved every second. More than that are a burst of new phones, and wait for a larger
    /// transaction, which costs less for each record because it writes many neighbours.
    private static let usualChanges = 5000
    /// From this many changes on, they are saved every second again, before the list of changes is full.
    private static let manyChanges = 50_000
    /// After this many seconds without a save, changes are saved, however many there are.
    private static let maximumSeconds = 10

    private let store: StandingStore
    private let log: EventLog
    private var isSaving = false
    private var secondsSinceSave = 0

    /// - Parameter secret: the key of the cluster, under which all its nodes hash device tokens; `nil` for a node that
    ///   belongs to none.
    /// - Throws: `StoreError`; `ConfigurationError` if the node has used another key before; `PrivateFileError` if its
    ///   key file cannot be read or written.
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

    /// Makes the key of the cluster the key of this node's records.
    /// - Returns: `false` if the records already have another key.
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
    /// - Parameter clock: is set back if it is more than 30 days ahead of the last use of any device token: a clock
    ///   that is wrong at the start must not make bindings of sender keys expire.
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

    /// Whether changes are to be saved now.
    /// - Parameters:
    ///   - changes: the number of unsaved changes.
    ///   - seconds: the time since the last save.
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
