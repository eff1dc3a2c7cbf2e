// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Dispatch
import GRDB
import Synchronization

/// The standing of device tokens on disk: SQLite, with hashes under a key of the node in place of tokens and sender
/// keys. Callable from anywhere; it keeps no rows in memory.
package final class StandingStore: Sendable {
    /// Seconds for which another connection may hold the database up, e.g. a backup.
    private static let busyTimeout = 5.0

    /// The node's key for keyed hashes: the random bytes of the key file.
    package let key: SecretBytes
    private let path: String
    private let database: DatabaseQueue
    private let lock: Mutex<FileLock?>
    /// Set on the database's queue, and looked at there before the connection is used: GRDB crashes over one that is
    /// closed.
    private let isClosed = Atomic<Bool>(false)

    private init(at path: String, in database: DatabaseQueue, lock: FileLock, key: SecretBytes) {
        self.path = path
        self.database = database
        self.lock = Mutex(lock)
        self.key = key
    }

    // MARK: Opening

    /// Opens the store, or makes an empty one. All its files are for their owner only. Blocks while it reads the whole
    /// file once.
    /// - Parameters:
    ///   - path: of the database; `-wal`, `-shm` and `.lock` are added for the files beside it.
    ///   - keyFile: holds the key; it may lie on other storage, and is made together with the store.
    package static func open(at path: String, keyFile: String) throws(StandingStoreError) -> StandingStore {
        do {
            let lock = try FileLock(at: path + ".lock", for: path)
            // Only an empty store gets a new key, and before anything is in it: a lost key is noticed.
            let isEmpty = try PrivateFile.ensure(path) == 0
            let firstKey = try isEmpty ? KeyFile.readOrMake(keyFile) : nil
            let database = try DatabaseQueue(path: path, configuration: configuration(for: path))
            let key = try firstKey ?? KeyFile.read(keyFile)
            // SQLite gives its other files the permissions of the database.
            for suffix in ["", "-wal", "-shm"] { try PrivateFile.restrict(path + suffix) }
            try StandingSchema.prepare(database, key: key, file: path, keyFile: keyFile)
            return StandingStore(at: path, in: database, lock: lock, key: key)
        } catch {
            throw StandingStoreError(error, file: path)
        }
    }

    private static func configuration(for path: String) -> Configuration {
        var configuration = Configuration()
        configuration.label = "standing"
        configuration.foreignKeysEnabled = false
        configuration.busyMode = .timeout(busyTimeout)
        configuration.prepareDatabase { db in
            try StandingSchema.refuseForeign(db, file: path)
            try StandingSchema.configure(db, file: path)
        }
        return configuration
    }

    // MARK: Reading

    /// Gives all rows to `body`, one after another, those first that were used last. Blocks until it has: less than a
    /// second for a million rows. `body` must not call the store.
    package func load(_ body: (StandingRow) -> Void) throws(StandingStoreError) {
        do {
            try database.writeWithoutTransaction { db in
                try requireOpen()
                let rows = try Row.fetchCursor(
                    db, sql: "SELECT token, standing, since, day, sender FROM standing ORDER BY day DESC")
                while let row = try rows.next() { body(StandingRow(row)) }
            }
        } catch {
            throw StandingStoreError(error, file: path)
        }
    }

    private func requireOpen() throws(StandingStoreError) {
        guard !isClosed.load(ordering: .relaxed) else { throw .closed(file: path) }
    }

    // MARK: Writing

    /// Writes rows, over those of the same tokens, and removes others: all of it or, where it throws, nothing. Costs
    /// the caller's thread nothing; saves are done in the order in which they were asked for. One that failed may be
    /// tried again, as ``StandingStoreError/diskFull(file:)`` once there is room. SQLite's log grows to what one save
    /// changes, some 4 KB for each row of a large store.
    /// - Parameters:
    ///   - rows: at most one for a token.
    ///   - gone: tokens to forget, in the store or not. What has a row in `rows`, too, stays.
    package func save(
        _ rows: [StandingRow], forgetting gone: [UInt64], isolation: isolated (any Actor)? = #isolation
    ) async throws(StandingStoreError) {
        let result: Result<Void, StandingStoreError> = await withCheckedContinuation { continuation in
            database.asyncWriteWithoutTransaction { db in
                continuation.resume(returning: self.commit(rows, forgetting: gone, in: db))
            }
        }
        try result.get()
    }

    private func commit(
        _ rows: [StandingRow], forgetting gone: [UInt64], in db: Database
    ) -> Result<Void, StandingStoreError> {
        do {
            try requireOpen()
            try db.inTransaction(.immediate) {
                try Self.remove(gone, in: db)
                try Self.write(rows, in: db)
                return .commit
            }
            // What was removed leaves the log, too.
            if !gone.isEmpty { _ = try? db.checkpoint(.truncate) }
            return .success(())
        } catch {
            let error = StandingStoreError(error, file: path)
            // It may be our own log that has filled it.
            if case .diskFull = error { _ = try? db.checkpoint(.truncate) }
            return .failure(error)
        }
    }

    private static func remove(_ tokens: [UInt64], in db: Database) throws {
        let statement = try db.cachedStatement(sql: "DELETE FROM standing WHERE token = ?")
        for token in tokens { try statement.execute(arguments: [Int64(bitPattern: token)]) }
    }

    private static func write(_ rows: [StandingRow], in db: Database) throws {
        let statement = try db.cachedStatement(
            sql: """
                INSERT INTO standing (token, standing, since, day, sender) VALUES (?, ?, ?, ?, ?)
                ON CONFLICT (token) DO UPDATE SET
                    standing = excluded.standing, since = excluded.since, day = excluded.day, sender = excluded.sender
                """)
        for row in rows { try statement.execute(arguments: row.columns) }
    }

    // MARK: Closing

    /// Waits for the saves that were asked for and lets go of the file. After it, loading and saving throw
    /// ``StandingStoreError/closed(file:)``.
    package func close(isolation: isolated (any Actor)? = #isolation) async {
        await withCheckedContinuation { continuation in
            // Closing waits for the database's queue, which a caller's thread must not.
            DispatchQueue.global().async {
                self.database.writeWithoutTransaction { _ in self.isClosed.store(true, ordering: .relaxed) }
                try? self.database.close()
                self.lock.withLock { $0 = nil }
                continuation.resume()
            }
        }
    }
}

extension StandingRow {
    /// A row of the table; its CHECKs see to it that nothing is cut off.
    fileprivate init(_ row: Row) {
        self.init(
            token: UInt64(bitPattern: row[0]), standing: UInt8(truncatingIfNeeded: row[1] as Int64),
            since: UInt64(bitPattern: row[2]), day: UInt16(truncatingIfNeeded: row[3] as Int64),
            sender: UInt64(bitPattern: row[4]))
    }

    /// The values of the table's columns, in their order.
    fileprivate var columns: StatementArguments {
        [
            Int64(bitPattern: token), Int64(standing), Int64(bitPattern: since), Int64(day), Int64(bitPattern: sender),
        ]
    }
}
