// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Store
import Time

extension Spool {
    /// Opens the spool, or creates an empty one. Only the owner can read the spool's files. Blocks while it reads the
    /// whole file once.
    /// - Parameters:
    ///   - path: the path of the database. The names of the other files append `-wal`, `-shm`, `.lock` and `.rowkeys`
    ///     to it.
    ///   - keyFile: the path of the key file, which is created together with the spool and may be on other storage.
    ///   - maxBytes: the limit for envelopes and outcomes in bytes; SQLite's log, up to some megabytes, is not
    ///     included.
    ///   - reserve: bytes of the disk to leave free.
    ///   - now: the time, Unix time in seconds.
    ///   - onExpired: receives the ids of expired envelopes that were removed to make room.
    package static func open(
        at path: String, keyFile: String, maxBytes: Int, reserve: Int = diskReserve,
        now: @escaping @Sendable () -> Int64 = { UnixTime.now }, onExpired: @escaping ExpiryObserver = { _ in }
    ) throws(StoreError) -> Spool {
        let file = try StoreFile(
            .spool, at: path, keyFile: keyFile, makeCheck: { SpoolKey($0).makeCheck() },
            isRightKey: { SpoolKey($0).matches($1) })
        do {
            let connection = file.connection
            let envelopes = try sum(of: "envelope", in: connection)
            let outcomes = try sum(of: "outcome", in: connection)
            let slots = try connection.all("SELECT slot FROM envelope WHERE slot IS NOT NULL") { Int($0.integer(0)) }
            let rowKeys = try RowKeys(at: path + ".rowkeys", of: path, used: Set(slots))
            return Spool(
                at: path, in: file, rowKeys: rowKeys, maxBytes: maxBytes, reserve: reserve, count: envelopes.rows,
                bytes: envelopes.bytes + outcomes.bytes, now: now, onExpired: onExpired)
        } catch {
            throw StoreError(error, file: path, of: .spool)
        }
    }

    private static func sum(of table: String, in connection: Connection) throws -> (rows: Int, bytes: Int) {
        let sum = try connection.first("SELECT COUNT(*), COALESCE(SUM(LENGTH(sealed)), 0) FROM \(table)") {
            (rows: Int($0.integer(0)), bytes: Int($0.integer(1)))
        }
        guard let sum else { return (0, 0) }
        return (sum.rows, sum.bytes + sum.rows * SpoolTransaction.rowOverhead)
    }
}
