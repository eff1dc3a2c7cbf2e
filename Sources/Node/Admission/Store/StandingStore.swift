// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Store

/// Stores the standing of device tokens in SQLite, with keyed hashes instead of device tokens and sender keys. Can be
/// called from any thread. Keeps no rows in memory.
package final class StandingStore: Sendable {
    /// The node's key for keyed hashes: the random bytes of the key file.
    package let key: SecretBytes
    private let database: ConnectionQueue

    // MARK: Opening

    /// Opens the store, or creates an empty one. Reads the whole file once, and blocks while it does.
    /// - Parameters:
    ///   - path: the path of the database. SQLite's other files and the lock file append `-wal`, `-shm` and `.lock`.
    ///   - keyFile: the path of the key file, which may be on other storage.
    package init(at path: String, keyFile: String, on disk: any Disk = SystemDisk()) throws(StoreError) {
        let file = try StoreFile(
            .standing, at: path, keyFile: keyFile, makeCheck: StandingStore.check,
            isRightKey: { StandingStore.check(of: $0) == $1 })
        key = file.key
        database = ConnectionQueue(file, on: disk)
    }

    /// A keyed hash of 16 bytes that identifies the key without revealing it.
    private static func check(of key: SecretBytes) -> [UInt8] {
        key.derivedKey(for: "tocsin-standing-check").keyedHash(of: BLAKE2b.hash256([]), count: 16)
    }

    // MARK: Reading

    /// The day of the last use of any device token, counted from 1970-01-01; `nil` if the store is empty. Blocks while
    /// it reads all rows.
    package func lastDay() throws(StoreError) -> UInt16? {
        try database.sync { connection in
            try connection.first("SELECT day FROM standing ORDER BY day DESC LIMIT 1") {
                UInt16(truncatingIfNeeded: $0.integer(0))
            }
        }
    }

    /// Passes each record to `body`, in no particular order. Blocks until done: less than a second for a million rows.
    /// `body` must not call the store.
    package func load(_ body: (TokenRecord) -> Void) throws(StoreError) {
        try database.sync { connection in
            try connection.run("SELECT token, standing, since, day, sender FROM standing") { body(TokenRecord($0)) }
        }
    }

    // MARK: Writing

    /// Inserts or replaces records and removes others, in one transaction: nothing changes if it throws. Does not block
    /// the caller's thread; saves run in the order of the calls. The caller may retry a failed save; after
    /// ``StoreError/Problem/diskFull``, once there is space again. A save adds the pages that it changes to SQLite's
    /// write-ahead log: about 4 KB for each row, but at most the size of the store.
    /// - Parameters:
    ///   - records: at most one per token.
    ///   - gone: tokens to remove, whether stored or not. A token that also has a record in `records` is kept.
    package func save(
        _ records: [TokenRecord], forgetting gone: [UInt64], isolation: isolated (any Actor)? = #isolation
    ) async throws(StoreError) {
        try await database.run { connection in
            // In the order of the table, so that neighbours are written to one page.
            let ordered = records.sorted { Int64(bitPattern: $0.token) < Int64(bitPattern: $1.token) }
            do {
                try connection.transaction {
                    for token in gone {
                        try connection.run("DELETE FROM standing WHERE token = ?", [token])
                    }
                    var values: [Int64] = []
                    var rest = ordered[...]
                    while !rest.isEmpty {
                        let isFull = rest.count >= Self.rowsPerStatement
                        let batch = rest.prefix(isFull ? Self.rowsPerStatement : 1)
                        values.removeAll(keepingCapacity: true)
                        for record in batch { record.appendColumns(to: &values) }
                        try connection.run(isFull ? Self.upsertMany : Self.upsertOne, values)
                        rest = rest.dropFirst(batch.count)
                    }
                }
            } catch {
                // The write-ahead log itself may have filled the disk.
                if (error as? SQLiteError)?.isDiskFull == true { try? connection.truncateLog() }
                throw error
            }
            // Erases removed rows from the write-ahead log, too.
            if !gone.isEmpty { try? connection.truncateLog() }
        }
    }

    /// The number of rows that one statement writes: SQLite needs more time to start a statement than to write a row.
    private static let rowsPerStatement = 64
    private static let upsertOne = upsert(rows: 1)
    private static let upsertMany = upsert(rows: rowsPerStatement)

    private static func upsert(rows: Int) -> String {
        """
        INSERT INTO standing (token, standing, since, day, sender)
        VALUES \(Array(repeating: "(?, ?, ?, ?, ?)", count: rows).joined(separator: ", "))
        ON CONFLICT (token) DO UPDATE SET
            standing = excluded.standing, since = excluded.since, day = excluded.day, sender = excluded.sender
        """
    }

    // MARK: Closing

    /// Waits for earlier saves and closes the file. Later calls of ``load(_:)`` and ``save(_:forgetting:isolation:)``
    /// throw ``StoreError/Problem/closed``.
    package func close(isolation: isolated (any Actor)? = #isolation) async {
        await database.close()
    }
}

extension TokenRecord {
    /// Appends the values of the columns, in the order of the statement; the store keeps a hash's bits as a signed integer.
    fileprivate func appendColumns(to values: inout [Int64]) {
        values.append(Int64(bitPattern: token))
        values.append(Int64(standing.rawValue))
        values.append(Int64(bitPattern: since))
        values.append(Int64(day))
        values.append(Int64(bitPattern: binding))
    }

    /// Converts a row of the table. The table's CHECK constraints ensure that nothing is truncated.
    fileprivate init(_ row: Row) {
        self.init(
            token: UInt64(bitPattern: row.integer(0)), standing: UInt8(truncatingIfNeeded: row.integer(1)),
            since: UInt64(bitPattern: row.integer(2)), day: UInt16(truncatingIfNeeded: row.integer(3)),
            binding: UInt64(bitPattern: row.integer(4)))
    }
}
