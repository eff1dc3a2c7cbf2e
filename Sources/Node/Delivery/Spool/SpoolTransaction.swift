// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Store
import TNP

/// Runs the statements of one transaction and counts the spool's new totals, which take effect when it is committed.
struct SpoolTransaction {
    /// Bytes of a row without its sealed content, including its index entries: a round number above what SQLite needs.
    static let rowOverhead = 96

    /// Maximum number of expired rows that one transaction removes to make room; ``purge()`` removes up to this number
    /// of each table.
    private static let maximumPurged = 2048
    /// How many expired rows are removed at a time.
    private static let purgedAtATime = 256

    let connection: Connection
    let key: SpoolKey
    let rowKeys: RowKeys
    let now: Int64
    /// Envelopes that expired before this time may be removed to make room.
    let purgesBefore: Int64
    let maximumBytes: Int
    private(set) var purgeable = Self.maximumPurged

    /// The number of stored envelopes.
    private(set) var count: Int
    /// The size of all rows in bytes.
    private(set) var bytes: Int
    /// The ids of expired envelopes that were removed.
    private(set) var expired: [Int64] = []
    /// Whether rows of either table were removed.
    private(set) var hasRemoved = false
    /// Slots of ``RowKeys`` for rows that this transaction adds.
    private(set) var madeSlots: [Int] = []
    /// Slots of ``RowKeys`` for rows that this transaction removes.
    private(set) var freedSlots: [Int] = []

    /// Removes an envelope and remembers its outcome.
    mutating func finish(_ finish: SpoolBatch.Finish) throws {
        try remove(finish.id)
        guard let until = finish.keepUntil, until > now else { return }
        let name = key.name(of: finish.digest)
        let sealed = key.seal(finish.outcome, name: name, until: until)
        // The first outcome remains: a sender may have received it.
        try connection.run(
            "INSERT OR IGNORE INTO outcome (digest, until, sealed) VALUES (?, ?, ?)", [name, until, sealed])
        if connection.changes > 0 { bytes += sealed.count + Self.rowOverhead }
    }

    /// Stores an envelope, unless its digest is known or there is no room.
    mutating func store(_ envelope: SpooledEnvelope) throws -> StoreResult {
        let name = key.name(of: envelope.envelope.digest)
        if let outcome = try finalOutcome(of: name) { return .alreadyFinal(outcome) }
        let present = try connection.first("SELECT id FROM envelope WHERE digest = ?", [name]) { $0.integer(0) }
        if let present { return .alreadyStored(id: present) }
        let (slot, secret) = try rowKeys.make()
        madeSlots.append(slot)
        let sealed = key.seal(envelope, name: name, secret: secret)
        let size = sealed.count + Self.rowOverhead
        guard try makeRoom(for: size) else {
            freedSlots.append(slot)
            return .full(maximumBytes == 0 ? .disk : .bytes)
        }
        try connection.run(
            "INSERT INTO envelope (digest, expires, sealed, slot) VALUES (?, ?, ?, ?)",
            [name, envelope.expires, sealed, slot])
        count += 1
        bytes += size
        return .stored(id: connection.lastInsertedRowID)
    }

    /// Removes an envelope if it is still stored.
    mutating func remove(_ id: Int64) throws {
        let rows = try connection.all("DELETE FROM envelope WHERE id = ? RETURNING length(sealed), slot", [id]) {
            (length: Int($0.integer(0)), slot: Int($0.integer(1)))
        }
        for row in rows { removed(length: row.length, slot: row.slot) }
    }

    private mutating func removed(length: Int, slot: Int) {
        hasRemoved = true
        count -= 1
        bytes -= length + Self.rowOverhead
        freedSlots.append(slot)
    }

    /// Removes up to `limit` expired outcomes.
    /// - Returns: how many were removed.
    @discardableResult
    mutating func purgeOutcomes(limit: Int) throws -> Int {
        let lengths = try connection.all(
            """
            DELETE FROM outcome WHERE digest IN (SELECT digest FROM outcome WHERE until <= ? ORDER BY until LIMIT ?)
            RETURNING length(sealed)
            """, [now, limit]
        ) { Int($0.integer(0)) }
        for length in lengths { bytes -= length + Self.rowOverhead }
        hasRemoved = hasRemoved || !lengths.isEmpty
        return lengths.count
    }

    private mutating func purgeEnvelopes(limit: Int) throws -> Int {
        let rows = try connection.all(
            """
            DELETE FROM envelope
            WHERE id IN (SELECT id FROM envelope WHERE expires BETWEEN ? AND ? ORDER BY expires LIMIT ?)
            RETURNING id, length(sealed), slot
            """, [StoredDates.latestImplausible + 1, purgesBefore, limit]
        ) { (id: $0.integer(0), length: Int($0.integer(1)), slot: Int($0.integer(2))) }
        for row in rows {
            expired.append(row.id)
            removed(length: row.length, slot: row.slot)
        }
        return rows.count
    }

    /// Removes expired outcomes and envelopes, up to ``maximumPurged`` of each.
    mutating func purge() throws {
        try purgeOutcomes(limit: Self.maximumPurged)
        _ = try purgeEnvelopes(limit: Self.maximumPurged)
    }

    private mutating func makeRoom(for size: Int) throws -> Bool {
        while bytes + size > maximumBytes, purgeable > 0 {
            let outcomes = try purgeOutcomes(limit: Self.purgedAtATime)
            let envelopes = try purgeEnvelopes(limit: Self.purgedAtATime)
            purgeable = outcomes + envelopes == 0 ? 0 : purgeable - outcomes - envelopes
        }
        return bytes + size <= maximumBytes
    }

    private mutating func finalOutcome(of name: [UInt8]) throws -> Outcome? {
        let row = try connection.first("SELECT until, sealed FROM outcome WHERE digest = ?", [name]) {
            (until: $0.integer(0), sealed: $0.bytes(1))
        }
        guard let row else { return nil }
        if row.until > now, let outcome = key.openOutcome(row.sealed, name: name, until: row.until) { return outcome }
        // The outcome is expired or unreadable, and would block the next outcome of this digest.
        try connection.run("DELETE FROM outcome WHERE digest = ?", [name])
        hasRemoved = true
        bytes -= row.sealed.count + Self.rowOverhead
        return nil
    }
}
