// SPDX-License-Identifier: Apache-2.0

import Cryptography
import FoundationEssentials
import GRDB
import TNP

/// The statements of one transaction, and what they make of the spool's sums, which count once it is committed.
struct SpoolTransaction {
    /// What a row takes beside its sealed bytes, its entries in the indices included: a round number above what SQLite
    /// needs.
    static let rowOverhead = 96

    /// The most expired rows that make room in one transaction, and how many at a time.
    private static let mostPurged = 2048
    private static let purgedAtATime = 256

    private let db: Database
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

    init(_ db: Database, key: SpoolKey, rowKeys: RowKeys, now: Int64, maxBytes: Int, count: Int, bytes: Int) {
        self.db = db
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
        try db.cachedStatement(sql: "INSERT OR IGNORE INTO outcome (digest, until, sealed) VALUES (?, ?, ?)")
            .execute(arguments: [Data(name), until, Data(sealed)])
        if db.changesCount > 0 { bytes += sealed.count + Self.rowOverhead }
    }

    mutating func store(_ envelope: SpooledEnvelope) throws -> StoreResult {
        let name = key.name(of: envelope.envelope.digest)
        if let outcome = try finalOutcome(of: name) { return .alreadyFinal(outcome) }
        let present = try Int64.fetchOne(
            db.cachedStatement(sql: "SELECT id FROM envelope WHERE digest = ?"), arguments: [Data(name)])
        if let present { return .alreadyStored(id: present) }
        let (slot, secret) = try rowKeys.make()
        madeSlots.append(slot)
        let sealed = key.seal(envelope, name: name, secret: secret)
        let size = sealed.count + Self.rowOverhead
        guard try makeRoom(for: size) else {
            freedSlots.append(slot)
            return .full(maxBytes == 0 ? .disk : .bytes)
        }
        try db.cachedStatement(sql: "INSERT INTO envelope (digest, expires, sealed, slot) VALUES (?, ?, ?, ?)")
            .execute(arguments: [Data(name), envelope.expires, Data(sealed), slot])
        count += 1
        bytes += size
        return .stored(id: db.lastInsertedRowID)
    }

    /// Removes an envelope, where it is still there.
    mutating func remove(_ id: Int64) throws {
        let rows = try Row.fetchAll(
            db.cachedStatement(sql: "DELETE FROM envelope WHERE id = ? RETURNING length(sealed), slot"), arguments: [id]
        )
        for row in rows { removed(length: row[0], slot: row[1]) }
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
        let lengths = try Int.fetchAll(
            db.cachedStatement(
                sql: """
                    DELETE FROM outcome WHERE digest IN
                        (SELECT digest FROM outcome WHERE until <= ? ORDER BY until LIMIT ?)
                    RETURNING length(sealed)
                    """), arguments: [now, limit])
        for length in lengths { bytes -= length + Self.rowOverhead }
        hasRemoved = hasRemoved || !lengths.isEmpty
        return lengths.count
    }

    private mutating func purgeEnvelopes(limit: Int) throws -> Int {
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    DELETE FROM envelope WHERE id IN
                        (SELECT id FROM envelope WHERE expires <= ? ORDER BY expires LIMIT ?)
                    RETURNING id, length(sealed), slot
                    """), arguments: [now, limit])
        for row in rows {
            expired.append(row[0])
            removed(length: row[1], slot: row[2])
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
        let row = try Row.fetchOne(
            db.cachedStatement(sql: "SELECT until, sealed FROM outcome WHERE digest = ?"), arguments: [Data(name)])
        guard let row else { return nil }
        let until: Int64 = row[0]
        let sealed: Data = row[1]
        if until > now, let outcome = key.openOutcome(Array(sealed), name: name, until: until) { return outcome }
        // Past, or not to be read: it would be in the way of the next one.
        try db.cachedStatement(sql: "DELETE FROM outcome WHERE digest = ?").execute(arguments: [Data(name)])
        bytes -= sealed.count + Self.rowOverhead
        return nil
    }
}
