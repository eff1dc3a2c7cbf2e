// SPDX-License-Identifier: Apache-2.0

import Cryptography
import GRDB
import Providers
import Time

extension Spool {
    /// Seconds for which another connection may hold the database up, e.g. a backup.
    private static let busyTimeout = 5.0

    /// Opens the spool, or makes an empty one. All its files are for their owner only. Blocks while it reads the whole
    /// file once.
    /// - Parameters:
    ///   - path: of the database; `-wal`, `-shm`, `.lock` and `.rowkeys` are added for the files beside it.
    ///   - keyFile: holds the key; it may lie on other storage, and is made together with the spool.
    ///   - maxBytes: what envelopes and outcomes may take; SQLite's log, up to some megabytes, comes on top.
    ///   - now: the time, Unix time in seconds.
    ///   - onExpired: told which envelopes were removed to make room, their time having run out.
    package static func open(
        at path: String, keyFile: String, maxBytes: Int, now: @escaping @Sendable () -> Int64 = { UnixTime.now },
        onExpired: @escaping ExpiryObserver = { _ in }
    ) throws(SpoolError) -> Spool {
        try open(
            at: path, keyFile: keyFile, maxBytes: maxBytes, reserve: diskReserve, now: now, onExpired: onExpired)
    }

    /// The same with `reserve` bytes of the disk left free.
    static func open(
        at path: String, keyFile: String, maxBytes: Int, reserve: Int, now: @escaping @Sendable () -> Int64,
        onExpired: @escaping ExpiryObserver
    ) throws(SpoolError) -> Spool {
        do {
            let lock = try FileLock(at: path + ".lock", for: path)
            // Only an empty spool gets a new key, and before anything is in it: a lost key is noticed.
            let isEmpty = try PrivateFile.ensure(path) == 0
            let firstKey = try isEmpty ? KeyFile.readOrMake(keyFile) : nil
            let database = try DatabaseQueue(path: path, configuration: configuration(for: path))
            let secret = try firstKey ?? KeyFile.read(keyFile)
            guard let key = SpoolKey(secret) else { throw SpoolError.keyLength(file: keyFile, bytes: secret.count) }
            // SQLite gives its other files the permissions of the database.
            for suffix in ["", "-wal", "-shm"] { try PrivateFile.restrict(path + suffix) }
            try SpoolSchema.prepare(database, key: key, file: path)
            let sums = try database.writeWithoutTransaction { db in
                guard let check = try SpoolSchema.check(db) else { throw SpoolError.damaged(file: path) }
                guard key.made(check) else { throw SpoolError.wrongKey(file: keyFile, spool: path) }
                return (envelopes: try sum(of: "envelope", in: db), outcomes: try sum(of: "outcome", in: db))
            }
            let slots = try database.read {
                try Int.fetchSet($0, sql: "SELECT slot FROM envelope WHERE slot IS NOT NULL")
            }
            let rowKeys = try RowKeys(at: path + ".rowkeys", of: path, used: slots)
            return Spool(
                at: path, in: database, lock: lock, key: key, rowKeys: rowKeys, maxBytes: maxBytes, reserve: reserve,
                count: sums.envelopes.rows, bytes: sums.envelopes.bytes + sums.outcomes.bytes, now: now,
                onExpired: onExpired)
        } catch {
            throw SpoolError(error, file: path)
        }
    }

    private static func configuration(for path: String) -> Configuration {
        var configuration = Configuration()
        configuration.label = "spool"
        configuration.foreignKeysEnabled = false
        configuration.busyMode = .timeout(busyTimeout)
        configuration.prepareDatabase { db in
            try SpoolSchema.refuseForeign(db, file: path)
            try SpoolSchema.configure(db, file: path)
        }
        return configuration
    }

    private static func sum(of table: String, in db: Database) throws -> (rows: Int, bytes: Int) {
        let row = try Row.fetchOne(db, sql: "SELECT COUNT(*), COALESCE(SUM(LENGTH(sealed)), 0) FROM \(table)")
        guard let row else { return (0, 0) }
        let rows: Int = row[0]
        let bytes: Int = row[1]
        return (rows, bytes + rows * SpoolTransaction.rowOverhead)
    }
}
