// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Store
import Synchronization
import TNP
import Time

/// Stores envelopes on disk until they have a final outcome, and outcomes for as long as a sender may resend: a SQLite
/// database with each row sealed. All work runs on a separate queue, so that no caller is blocked, and many calls
/// share one transaction. Callable from any thread. The callers bound the work queued in memory: each store is awaited,
/// and each finish belongs to one envelope.
package final class Spool: Sendable {
    /// Receives, on the spool's queue, the ids of expired envelopes that were removed to make room.
    package typealias ExpiryObserver = @Sendable ([Int64]) -> Void

    /// Bytes to leave free on the disk: deleting needs space too, so a spool that filled the disk could not be emptied.
    package static let diskReserve = 32 << 20

    /// The time before the spool tries removals again that it could not commit.
    private static let retryDelay = Duration.seconds(1)
    /// Time until removed rows are also erased from SQLite's write-ahead log.
    private static let erasureDelay = Duration.seconds(2)
    /// The maximum number of expired outcomes purged with each batch, in addition to twice the number of its finishes.
    private static let purgedWithEachBatch = 100

    private let path: String
    let database: ConnectionQueue
    private let disk: any Disk
    let key: SpoolKey
    private let maximumBytes: Int
    private let reserve: Int
    let now: @Sendable () -> Int64
    private let onExpired: ExpiryObserver
    /// Accessed on the database's queue only.
    private nonisolated(unsafe) let rowKeys: RowKeys
    private let inbox = Mutex(SpoolInbox())
    /// Whether the spool remembered outcomes of an earlier process when it was opened.
    let hadOutcomes: Bool
    private let storedCount: Atomic<Int>
    private let storedBytes: Atomic<Int>
    private let droppedCount = Atomic<Int>(0)
    private let erasureIsScheduled = Atomic<Bool>(false)
    /// The farthest that the wall clock has stepped ahead, in seconds: an envelope that expired only by this step is
    /// not purged.
    private let farthestStep = Atomic<Int64>(0)
    /// The number of committed transactions, for tests.
    let transactions = Atomic<Int>(0)

    /// Opens the spool, or creates an empty one. Only the owner can read the spool's files. Blocks while it reads the
    /// whole file once.
    /// - Parameters:
    ///   - path: the path of the database. The names of the other files append `-wal`, `-shm`, `.lock` and `.rowkeys`
    ///     to it.
    ///   - keyFile: the path of the key file, which is created together with the spool and may be on other storage.
    ///   - maximumBytes: the limit for envelopes and outcomes in bytes; SQLite's log, up to some megabytes, is not
    ///     included.
    ///   - reserve: bytes of the disk to leave free.
    ///   - now: the time, Unix time in seconds.
    ///   - onExpired: receives the ids of expired envelopes that were removed to make room.
    package init(
        at path: String, keyFile: String, maximumBytes: Int, reserve: Int = Spool.diskReserve,
        on disk: any Disk = SystemDisk(),
        now: @escaping @Sendable () -> Int64 = { UnixTime.now }, onExpired: @escaping ExpiryObserver = { _ in }
    ) throws(StoreError) {
        let file = try StoreFile(
            .spool, at: path, keyFile: keyFile, makeCheck: { SpoolKey($0).makeCheck() },
            isRightKey: { SpoolKey($0).matches($1) })
        let envelopes: (rows: Int, bytes: Int)
        let outcomes: (rows: Int, bytes: Int)
        do {
            let connection = file.connection
            // Versions before 1.0.0 sealed rows without a secret of their own.
            try connection.run("DELETE FROM envelope WHERE slot IS NULL")
            envelopes = try Spool.sum(of: "envelope", in: connection)
            outcomes = try Spool.sum(of: "outcome", in: connection)
            let slots = try connection.all("SELECT slot FROM envelope") { Int($0.integer(0)) }
            rowKeys = try RowKeys(at: path + ".rowkeys", of: path, used: Set(slots))
        } catch {
            throw StoreError(error, file: path, of: .spool)
        }
        self.path = path
        self.disk = disk
        database = ConnectionQueue(file, on: disk)
        key = SpoolKey(file.key)
        self.maximumBytes = maximumBytes
        self.reserve = reserve
        self.now = now
        self.onExpired = onExpired
        hadOutcomes = outcomes.rows > 0
        storedCount = Atomic(envelopes.rows)
        storedBytes = Atomic(envelopes.bytes + outcomes.bytes)
    }

    private static func sum(of table: String, in connection: Connection) throws -> (rows: Int, bytes: Int) {
        let sum = try connection.first("SELECT COUNT(*), COALESCE(SUM(LENGTH(sealed)), 0) FROM \(table)") {
            (rows: Int($0.integer(0)), bytes: Int($0.integer(1)))
        }
        guard let sum else { return (0, 0) }
        return (sum.rows, sum.bytes + sum.rows * SpoolTransaction.rowOverhead)
    }

    /// The number of stored envelopes.
    package var count: Int { storedCount.load(ordering: .relaxed) }
    /// The size of envelopes and outcomes in bytes, as `spool.max_bytes` counts them.
    package var bytes: Int { storedBytes.load(ordering: .relaxed) }
    /// The number of unreadable rows dropped since the spool was opened.
    package var dropped: Int { droppedCount.load(ordering: .relaxed) }

    /// Why the spool is full; `nil` if it has room. Expired rows count until they are removed.
    package var shortage: SpoolShortage? {
        if freeBytes < reserve { return .disk }
        return bytes + Self.maximumRow > maximumBytes ? .bytes : nil
    }

    /// The spool counts as full if less than this is left, in bytes: more than the largest row, which is one of Web Push
    /// with 4096 bytes of ciphertext and an endpoint of 1024.
    private static let maximumRow = 8192

    /// Records by how many seconds the wall clock has stepped ahead since the start.
    func clockStepped(_ seconds: Int64) { farthestStep.max(seconds, ordering: .relaxed) }

    /// Removes expired rows. Returns at once.
    func purge() {
        database.async { connection in
            guard !self.inbox.withLock({ $0.isClosed }),
                let transaction = try? self.transact(on: connection, { try $0.purge() })
            else { return }
            if !transaction.expired.isEmpty { self.onExpired(transaction.expired) }
        }
    }

    // MARK: Writing

    /// Stores an envelope; returns once the envelope is on disk or storing it has failed.
    package func store(
        _ envelope: SpooledEnvelope, isolation: isolated (any Actor)? = #isolation
    ) async -> StoreResult {
        await withCheckedContinuation { continuation in
            let store = SpoolBatch.Store(envelope: envelope, continuation: continuation)
            switch inbox.withLock({ $0.add(store) }) {
            case .run: scheduleBatch()
            case .wait: break
            case .refused: continuation.resume(returning: .failed("the spool is closed"))
            }
        }
    }

    /// Removes an envelope that has its final outcome. Takes effect in the next transaction, or in a later one if that
    /// fails.
    /// - Parameters:
    ///   - id: the id from ``store(_:isolation:)`` or ``index(isolation:)``; the row may be gone already.
    ///   - keepUntil: Unix time in seconds until which storing an envelope with this digest returns the outcome; `nil`
    ///     if the outcome is not remembered.
    package func finish(id: Int64, digest: Digest256, outcome: Outcome, keepUntil: Int64?) {
        let finish = SpoolBatch.Finish(id: id, digest: digest, outcome: outcome, keepUntil: keepUntil)
        if inbox.withLock({ $0.add(finish) }) == .run { scheduleBatch() }
    }

    private func scheduleBatch() {
        database.async { _ = self.runBatch(on: $0) }
    }

    /// Runs one batch and schedules the next.
    /// - Returns: whether all of the batch was committed.
    private func runBatch(on connection: Connection) -> Bool {
        let batch = inbox.withLock { $0.takeBatch() }
        let left = perform(batch, on: connection)
        let followUp = inbox.withLock { $0.batchEnded(left: left) }
        // Queues the next batch instead of looping, so that reads can run in between.
        if followUp.runs { scheduleBatch() }
        if followUp.pauses {
            disk.run(after: Self.retryDelay) { [weak self] in
                guard let self, self.inbox.withLock({ $0.pauseEnded() }) else { return }
                self.scheduleBatch()
            }
        }
        return left.isEmpty
    }

    /// Commits a batch and resumes its callers.
    /// - Returns: the finishes that could not be committed.
    private func perform(_ batch: SpoolBatch, on connection: Connection) -> [SpoolBatch.Finish] {
        guard !batch.isEmpty else { return [] }
        do {
            let (results, expired) = try commit(batch, on: connection)
            for (store, result) in zip(batch.stores, results) { store.continuation.resume(returning: result) }
            if !expired.isEmpty { onExpired(expired) }
            return []
        } catch {
            let failure = StoreResult.failed(StoreError.reason(error))
            for store in batch.stores { store.continuation.resume(returning: failure) }
        }
        // The disk may be full: truncating the log frees space, and the finishes alone, without the stores, may fit.
        try? connection.truncateLog()
        guard !batch.stores.isEmpty, !batch.finishes.isEmpty else { return batch.finishes }
        let committed = (try? commit(SpoolBatch(finishes: batch.finishes), on: connection)) != nil
        return committed ? [] : batch.finishes
    }

    private func commit(
        _ batch: SpoolBatch, on connection: Connection
    ) throws -> (results: [StoreResult], expired: [Int64]) {
        var results: [StoreResult] = []
        results.reserveCapacity(batch.stores.count)
        let transaction = try transact(on: connection) { transaction in
            try transaction.purgeOutcomes(limit: Self.purgedWithEachBatch + 2 * batch.finishes.count)
            for finish in batch.finishes { try transaction.finish(finish) }
            for store in batch.stores { try results.append(transaction.store(store.envelope)) }
        }
        return (results, transaction.expired)
    }

    private func transact(
        on connection: Connection, _ body: (inout SpoolTransaction) throws -> Void
    ) throws -> SpoolTransaction {
        var transaction = SpoolTransaction(
            connection: connection, key: key, rowKeys: rowKeys, now: now(),
            purgesBefore: now() - farthestStep.load(ordering: .relaxed),
            maximumBytes: freeBytes >= reserve ? maximumBytes : 0, count: count, bytes: bytes)
        do {
            try connection.transaction {
                try body(&transaction)
                // A row's secret must be on disk before the row is.
                try rowKeys.sync()
            }
        } catch {
            for slot in transaction.madeSlots { rowKeys.destroy(slot) }
            throw error
        }
        for slot in transaction.freedSlots { rowKeys.destroy(slot) }
        if transaction.hasRemoved { scheduleErasure() }
        storedCount.store(transaction.count, ordering: .relaxed)
        storedBytes.store(transaction.bytes, ordering: .relaxed)
        transactions.wrappingAdd(1, ordering: .relaxed)
        return transaction
    }

    /// Schedules the erasure of removed rows from the log; one erasure covers all rows removed until it runs.
    private func scheduleErasure() {
        guard !erasureIsScheduled.exchange(true, ordering: .relaxed) else { return }
        disk.run(after: Self.erasureDelay) { [weak self] in
            guard let self, !self.inbox.withLock({ $0.isClosed }) else { return }
            self.database.async { connection in
                self.erasureIsScheduled.store(false, ordering: .relaxed)
                try? self.rowKeys.sync()
                try? connection.truncateLog()
            }
        }
    }

    /// Bytes available to this process on the spool's disk.
    private var freeBytes: Int { disk.freeBytes(at: path) }

    // MARK: Reading

    /// The ids of all stored envelopes, in the order in which they were stored.
    package func index(isolation: isolated (any Actor)? = #isolation) async throws(StoreError) -> [Int64] {
        try await database.run { try $0.all("SELECT id FROM envelope ORDER BY id") { $0.integer(0) } }
    }

    /// Reads the envelopes with these ids, in the same order. Omits removed ids, and drops and counts rows that it
    /// cannot open.
    package func load(
        _ ids: [Int64], isolation: isolated (any Actor)? = #isolation
    ) async throws(StoreError) -> [(id: Int64, envelope: SpooledEnvelope)] {
        try await database.run { connection in
            var loaded: [(id: Int64, envelope: SpooledEnvelope)] = []
            var unreadable: [Int64] = []
            for id in ids {
                let envelope = try connection.first(
                    "SELECT digest, expires, sealed, slot FROM envelope WHERE id = ?", [id], convert: self.envelope)
                switch envelope {
                case .some(.some(let envelope)): loaded.append((id, envelope))
                case .some(nil): unreadable.append(id)
                case nil: break
                }
            }
            if !unreadable.isEmpty { self.drop(unreadable, on: connection) }
            return loaded
        }
    }

    private func envelope(_ row: Row) throws -> SpooledEnvelope? {
        let secret = try rowKeys.secret(in: Int(row.integer(3)))
        return key.openEnvelope(row.bytes(2), name: row.bytes(0), expires: row.integer(1), secret: secret)
    }

    /// Removes unreadable rows; if that fails, the next start finds them again.
    private func drop(_ ids: [Int64], on connection: Connection) {
        let dropped = try? transact(on: connection) { transaction in for id in ids { try transaction.remove(id) } }
        if dropped != nil { droppedCount.wrappingAdd(ids.count, ordering: .relaxed) }
    }

    // MARK: Closing

    /// Commits the queued work, writes the log into the database and closes the file. Finishes that cannot be committed
    /// now are lost: the next start delivers their envelopes again.
    package func close(isolation: isolated (any Actor)? = #isolation) async {
        guard inbox.withLock({ $0.close() }) else { return }
        database.async { connection in
            while self.runBatch(on: connection), !self.inbox.withLock({ $0.isEmpty }) {}
            for store in self.inbox.withLock({ $0.abandonStores() }) {
                store.continuation.resume(returning: .failed("the spool is closed"))
            }
            try? self.rowKeys.sync()
            try? connection.truncateLog()
        }
        await database.close()
    }
}
