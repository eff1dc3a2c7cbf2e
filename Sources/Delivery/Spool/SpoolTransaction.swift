// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Store
import TNP

/// The statements of one transaction, and what they make of the spool's sums, which count once it is committed.
struct SpoolTransaction {
    /// What a row takes beside its sealed bytes, its entries in the indices included: a round number above what SQLite
    /// needs.
    static let rowOverhead = 96

    /// The most expired rows that make room in one transaction, and how many at a time.
    private static let mostPurged = 2048
    private static let purgedAtATime = 256

    private let connection: Connection
    private let key: SpoolKey
    private let rowKeys: RowKeys
    private let now: Int64
    private let maxBytes: Int
    private var purgeable = Self.mostPurged

    /// How many envelopes wait.
    private(set) var count: Int
    /// What all rows take.
    private(set) var bytes: Int
    /// The envelopes that were removed because their time had run out.
    private(set) var expired: [Int64] = []
    /// Whether rows were removed, of whatever kind.
    private(set) var hasRemoved = false
    /// Slots of ``RowKeys`` that rows of this transaction have got, and those whose rows it removes.
    private(set) var madeSlots: [Int] = []
    private(set) var freedSlots: [Int] = []

    init(_ connection: Connection, key: SpoolKey, rowKeys: RowKeys, now: Int64, maxBytes: Int, count: Int, bytes: Int) {
        self.connection = connection
        self.key = key
        self.rowKeys = rowKeys
        self.now = now
        self.maxBytes = maxBytes
        self.count = count
        self.bytes = bytes
    }

    mutating func finish(_ finish: SpoolBatch.Finish) throws {
        try remove(finish.id)
        guard let until = finish.keepUntil, until > now else { return }
        let name = key.name(of: finish.digest)
        let sealed = key.seal(finish.outcome, name: name, until: until)
        // The first outcome stands: it is the one that a sender may have been told.
        try connection.run(
            "INSERT OR IGNORE INTO outcome (digest, until, sealed) VALUES (?, ?, ?)", [name, until, sealed])
        if connection.changes > 0 { bytes += sealed.count + Self.rowOverhead }
    }

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
            return .full(maxBytes == 0 ? .disk : .bytes)
        }
        try connection.run(
            "INSERT INTO envelope (digest, expires, sealed, slot) VALUES (?, ?, ?, ?)",
            [name, envelope.expires, sealed, slot])
        count += 1
        bytes += size
        return .stored(id: connection.lastInsertedRowID)
    }

    /// Removes an envelope, where it is still there.
    mutating func remove(_ id: Int64) throws {
        let rows = try connection.all("DELETE FROM envelope WHERE id = ? RETURNING length(sealed), slot", [id]) {
            (length: Int($0.integer(0)), slot: $0.isNull(1) ? nil : Int($0.integer(1)))
        }
        for row in rows { removed(length: row.length, slot: row.slot) }
    }

    private mutating func removed(length: Int, slot: Int?) {
        hasRemoved = true
        count -= 1
        bytes -= length + Self.rowOverhead
        if let slot { freedSlots.append(slot) }
    }

    /// Forgets up to `limit` outcomes whose time has run out. Returns how many.
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
            DELETE FROM envelope WHERE id IN (SELECT id FROM envelope WHERE expires <= ? ORDER BY expires LIMIT ?)
            RETURNING id, length(sealed), slot
            """, [now, limit]
        ) { (id: $0.integer(0), length: Int($0.integer(1)), slot: $0.isNull(2) ? nil : Int($0.integer(2))) }
        for row in rows {
            expired.append(row.id)
            removed(length: row.length, slot: row.slot)
        }
        return rows.count
    }

    /// Gives up expired outcomes and envelopes, as many as one transaction may.
    mutating func purge() throws {
        try purgeOutcomes(limit: Self.mostPurged)
        _ = try purgeEnvelopes(limit: Self.mostPurged)
    }

    private mutating func makeRoom(for size: Int) throws -> Bool {
        while bytes + size > maxBytes, purgeable > 0 {
            let outcomes = try purgeOutcomes(limit: Self.purgedAtATime)
            let envelopes = try purgeEnvelopes(limit: Self.purgedAtATime)
            purgeable = outcomes + envelopes == 0 ? 0 : purgeable - outcomes - envelopes
        }
        return bytes + size <= maxBytes
    }

    private mutating func finalOutcome(of name: [UInt8]) throws -> Outcome? {
        let row = try connection.first("SELECT until, sealed FROM outcome WHERE digest = ?", [name]) {
            (until: $0.integer(0), sealed: $0.bytes(1))
        }
        guard let row else { return nil }
        if row.until > now, let outcome = key.openOutcome(row.sealed, name: name, until: row.until) { return outcome }
        // Expired or unreadable: it would block the next outcome of this digest.
        try connection.run("DELETE FROM outcome WHERE digest = ?", [name])
        bytes -= row.sealed.count + Self.rowOverhead
        return nil
    }
}
