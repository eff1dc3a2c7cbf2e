// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Dispatch
import Glibc
import Store
import Synchronization
import TNP

/// Envelopes kept on disk until they have an outcome, and outcomes for as long as a sender may send again: SQLite with
/// each row sealed. All work is done on a queue of its own, so that nobody who calls is held up, and many calls share
/// one transaction. Callable from anywhere; what waits for a transaction in memory is as much as callers wait for, and
/// what they finish.
package final class Spool: Sendable {
    /// A row without what is sealed in it.
    package struct Entry: Equatable, Sendable {
        package let id: Int64
        /// When it is no longer to be delivered, Unix time in seconds.
        package let expires: Int64
    }

    /// Told, on the spool's own queue, which envelopes were removed to make room, their time having run out.
    package typealias ExpiryObserver = @Sendable ([Int64]) -> Void

    /// Bytes of the disk that are left free: deleting takes room, too, and a disk that the spool had filled to the last
    /// block could not be emptied again.
    static let diskReserve = 32 << 20

    /// Seconds after which finishes that could not be committed are tried again.
    private static let pauseAfterFailure = 1.0
    /// Seconds after which what was removed is erased from SQLite's log, too.
    private static let erasureDelay = 2.0
    /// Outcomes whose time has run out are purged in steps: so many with each batch, beside twice what it adds.
    private static let purgedWithEachBatch = 100

    private let path: String
    private let database: ConnectionQueue
    let key: SpoolKey
    private let maxBytes: Int
    private let reserve: Int
    let now: @Sendable () -> Int64
    private let onExpired: ExpiryObserver
    /// Used on the database's queue only.
    private nonisolated(unsafe) let rowKeys: RowKeys
    private let lock: Mutex<FileLock?>
    private let inbox = Mutex(SpoolInbox())
    private let storedCount: Atomic<Int>
    private let storedBytes: Atomic<Int>
    private let droppedCount = Atomic<Int>(0)
    private let erasureIsScheduled = Atomic<Bool>(false)
    /// Transactions committed.
    let transactions = Atomic<Int>(0)

    init(
        at path: String, in file: StoreFile, rowKeys: RowKeys, maxBytes: Int, reserve: Int, count: Int, bytes: Int,
        now: @escaping @Sendable () -> Int64, onExpired: @escaping ExpiryObserver
    ) {
        self.path = path
        database = ConnectionQueue(file.connection, label: "spool")
        lock = Mutex(file.lock)
        key = SpoolKey(file.key)
        self.rowKeys = rowKeys
        self.maxBytes = maxBytes
        self.reserve = reserve
        self.now = now
        self.onExpired = onExpired
        storedCount = Atomic(count)
        storedBytes = Atomic(bytes)
    }

    /// How many envelopes wait.
    package var count: Int { storedCount.load(ordering: .relaxed) }
    /// What envelopes and outcomes take, in bytes, as `spool.max_bytes` counts them.
    package var bytes: Int { storedBytes.load(ordering: .relaxed) }
    /// How many rows could not be opened and were dropped since the spool was opened.
    package var dropped: Int { droppedCount.load(ordering: .relaxed) }

    /// What keeps envelopes out at this moment, as far as can be told without looking for expired ones; nil: nothing.
    package var shortage: SpoolShortage? {
        if freeBytes < reserve { return .disk }
        return bytes + Self.largestRow > maxBytes ? .bytes : nil
    }

    /// Bytes of the largest row, about: of an envelope with the longest ciphertext and device token.
    private static let largestRow = 4096

    /// Gives up what has expired. Returns at once.
    func purge() {
        database.async { connection in
            guard let connection, !self.inbox.withLock({ $0.isClosed }),
                let transaction = try? self.transact(on: connection, { try $0.purge() })
            else { return }
            if !transaction.expired.isEmpty { self.onExpired(transaction.expired) }
        }
    }

    // MARK: Writing

    /// Stores an envelope; returns once it is on disk, or will not be.
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

    /// Removes an envelope that has its outcome, with the next transaction, and tries again where that fails.
    /// - Parameters:
    ///   - id: as ``store(_:isolation:)`` or ``index(isolation:)`` gave it; one that is gone already does no harm.
    ///   - keepUntil: until when the outcome is what storing an envelope of this digest gives, Unix time in seconds;
    ///     nil: it is not remembered.
    package func finish(id: Int64, digest: Digest256, outcome: Outcome, keepUntil: Int64?) {
        let finish = SpoolBatch.Finish(id: id, digest: digest, outcome: outcome, keepUntil: keepUntil)
        if inbox.withLock({ $0.add(finish) }) == .run { scheduleBatch() }
    }

    private func scheduleBatch() {
        database.async { connection in
            if let connection { _ = self.runBatch(on: connection) }
        }
    }

    /// Runs one batch and sees to the next. Returns whether nothing of it is left to be done.
    private func runBatch(on connection: Connection) -> Bool {
        let batch = inbox.withLock { $0.takeBatch() }
        let left = perform(batch, on: connection)
        let sequel = inbox.withLock { $0.batchEnded(left: left) }
        // Through the queue again rather than in a loop, so that reads have their turn.
        if sequel.runs { scheduleBatch() }
        if sequel.pauses {
            DispatchQueue.global().asyncAfter(deadline: .now() + Self.pauseAfterFailure) { [weak self] in
                guard let self, self.inbox.withLock({ $0.pauseEnded() }) else { return }
                self.scheduleBatch()
            }
        }
        return left.isEmpty
    }

    /// Commits a batch and answers it. Returns the finishes that could not be committed.
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
        // The disk may be full: emptying the log gives room back, and without the stores the rest may fit.
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
            connection, key: key, rowKeys: rowKeys, now: now(), maxBytes: freeBytes >= reserve ? maxBytes : 0,
            count: count,
            bytes: bytes)
        do {
            try connection.transaction {
                try body(&transaction)
                // No row is on disk before its secret is.
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

    /// What was removed leaves the disk, log included, soon after: once for all that is removed until then.
    private func scheduleErasure() {
        guard !erasureIsScheduled.exchange(true, ordering: .relaxed) else { return }
        DispatchQueue.global().asyncAfter(deadline: .now() + Self.erasureDelay) { [weak self] in
            guard let self, !self.inbox.withLock({ $0.isClosed }) else { return }
            self.database.async { connection in
                guard let connection else { return }
                self.erasureIsScheduled.store(false, ordering: .relaxed)
                try? self.rowKeys.sync()
                try? connection.truncateLog()
            }
        }
    }

    /// What is free for us on the spool's disk.
    private var freeBytes: Int {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { return .max }
        return Int(clamping: status.f_bavail &* status.f_frsize)
    }

    // MARK: Reading

    /// All envelopes that wait, in the order in which they came.
    package func index(isolation: isolated (any Actor)? = #isolation) async throws(StoreError) -> [Entry] {
        try await read { connection in
            try connection.all("SELECT id, expires FROM envelope ORDER BY id") {
                Entry(id: $0.integer(0), expires: $0.integer(1))
            }
        }
    }

    /// The envelopes of these ids, in their order. Ids that are gone are left out; so are rows that cannot be opened,
    /// which are dropped and counted.
    package func load(
        _ ids: [Int64], isolation: isolated (any Actor)? = #isolation
    ) async throws(StoreError) -> [(id: Int64, envelope: SpooledEnvelope)] {
        try await read { connection in
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
        let secret = row.isNull(3) ? nil : try rowKeys.secret(in: Int(row.integer(3)))
        return key.openEnvelope(row.bytes(2), name: row.bytes(0), expires: row.integer(1), secret: secret)
    }

    /// Where the disk does not let them go, they are met again at the next start.
    private func drop(_ ids: [Int64], on connection: Connection) {
        let dropped = try? transact(on: connection) { transaction in for id in ids { try transaction.remove(id) } }
        if dropped != nil { droppedCount.wrappingAdd(ids.count, ordering: .relaxed) }
    }

    func read<Value: Sendable>(
        isolation: isolated (any Actor)? = #isolation, _ body: @escaping @Sendable (Connection) throws -> Value
    ) async throws(StoreError) -> Value {
        let result: Result<Value, StoreError> = await withCheckedContinuation { continuation in
            database.async { connection in
                let result: Result<Value, StoreError>
                do {
                    guard let connection, !self.inbox.withLock({ $0.isClosed }) else {
                        throw StoreError(.closed, file: self.path, of: .spool)
                    }
                    result = .success(try body(connection))
                } catch {
                    result = .failure(StoreError(error, file: self.path, of: .spool))
                }
                continuation.resume(returning: result)
            }
        }
        return try result.get()
    }

    // MARK: Closing

    /// Commits what waits, empties the log into the database and lets go of the file. Finishes that the disk does not
    /// take even now are lost: their envelopes are there again at the next start.
    package func close(isolation: isolated (any Actor)? = #isolation) async {
        guard inbox.withLock({ $0.close() }) else { return }
        await withCheckedContinuation { continuation in
            database.async { connection in
                guard let connection else { return }
                while self.runBatch(on: connection), !self.inbox.withLock({ $0.isEmpty }) {}
                for store in self.inbox.withLock({ $0.abandonStores() }) {
                    store.continuation.resume(returning: .failed("the spool is closed"))
                }
                try? self.rowKeys.sync()
                try? connection.truncateLog()
            }
            database.close {
                self.lock.withLock { $0 = nil }
                continuation.resume()
            }
        }
    }
}
