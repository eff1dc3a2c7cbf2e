// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

@testable import Delivery

/// A spool in memory that answers as ``Spool`` does. A removal reaches the disk later: stores and look-ups wait for it,
/// and a load may overtake it.
struct MemorySpool {
    private struct Removal {
        let row: Int64
        let digest: Digest256
        let outcome: Outcome
        let keepUntil: Int64?
    }

    /// The rows on the disk.
    private(set) var rows: [Int64: SpooledEnvelope] = [:]
    private var rowOfDigest: [Digest256: Int64] = [:]
    private(set) var outcomes: [Digest256: (outcome: Outcome, until: Int64)] = [:]
    /// Removals that are not on the disk yet, in order.
    private var removals: [Removal] = []
    /// Rows whose removal was requested.
    private var ended: Set<Int64> = []
    /// Envelopes whose row the spool itself removed, or that it has read although the removal was requested.
    private var lost: Set<Digest256> = []
    private var lastRow: Int64 = 0
    /// Number of unreadable rows that were dropped.
    private(set) var dropped = 0

    /// Whether an envelope is on the disk and is to stay there. Also true for an envelope that the spool itself lost.
    func holds(_ digest: Digest256) -> Bool {
        if lost.contains(digest) { return true }
        return rowOfDigest[digest].map { !ended.contains($0) } ?? false
    }

    // MARK: Writing

    /// Adds a row, as an earlier process would have done.
    @discardableResult mutating func add(_ stored: SpooledEnvelope) -> Int64 {
        lastRow += 1
        rows[lastRow] = stored
        rowOfDigest[stored.envelope.digest] = lastRow
        lost.remove(stored.envelope.digest)
        return lastRow
    }

    /// Adds an outcome, as an earlier process would have done.
    mutating func remember(_ digest: Digest256, _ outcome: Outcome, until: Int64) {
        outcomes[digest] = (outcome: outcome, until: until)
    }

    mutating func store(_ stored: SpooledEnvelope, at unix: Int64) -> StoreResult {
        commit(at: unix)
        if let outcome = outcome(of: stored.envelope.digest, at: unix) { return .alreadyFinal(outcome) }
        if let row = rowOfDigest[stored.envelope.digest] { return .alreadyStored(id: row) }
        return .stored(id: add(stored))
    }

    /// Requests the removal of a row.
    /// - Returns: whether the row belongs to this envelope, and its removal was not requested before.
    mutating func remove(_ row: Int64, _ digest: Digest256, _ outcome: Outcome, keepUntil: Int64?) -> Bool {
        guard (1...max(1, lastRow)).contains(row), ended.insert(row).inserted else { return false }
        removals.append(Removal(row: row, digest: digest, outcome: outcome, keepUntil: keepUntil))
        return rows[row].map { $0.envelope.digest == digest } ?? true
    }

    /// Performs the requested removals.
    mutating func commit(at unix: Int64) {
        for removal in removals {
            forget(removal.row)
            guard let until = removal.keepUntil, until > unix, outcome(of: removal.digest, at: unix) == nil else {
                continue
            }
            remember(removal.digest, removal.outcome, until: until)
        }
        removals = []
    }

    /// Removes and returns the expired rows.
    mutating func purge(at unix: Int64) -> [Int64] {
        let expired = rows.filter { $0.value.expires <= unix }.keys.sorted()
        for row in expired { lose(row) }
        return expired
    }

    // MARK: Reading

    mutating func lookUp(_ digest: Digest256, at unix: Int64) -> Spool.Known {
        commit(at: unix)
        if let outcome = outcome(of: digest, at: unix) { return .final(outcome) }
        return rowOfDigest[digest].map { .stored(id: $0) } ?? .nothing
    }

    /// Reads rows and drops the unreadable ones.
    mutating func load(_ wanted: [Int64], unreadable: Set<Int64>) -> [(id: Int64, envelope: SpooledEnvelope)] {
        var found: [(id: Int64, envelope: SpooledEnvelope)] = []
        for row in wanted {
            guard let stored = rows[row] else { continue }
            if unreadable.contains(row) {
                lose(row)
                dropped += 1
            } else {
                // The envelope may now end a second time.
                if ended.remove(row) != nil { lost.insert(stored.envelope.digest) }
                found.append((id: row, envelope: stored))
            }
        }
        return found
    }

    private func outcome(of digest: Digest256, at unix: Int64) -> Outcome? {
        guard let known = outcomes[digest], known.until > unix else { return nil }
        return known.outcome
    }

    private mutating func lose(_ row: Int64) {
        if let stored = rows[row] { lost.insert(stored.envelope.digest) }
        forget(row)
    }

    private mutating func forget(_ row: Int64) {
        guard let stored = rows.removeValue(forKey: row) else { return }
        if rowOfDigest[stored.envelope.digest] == row { rowOfDigest[stored.envelope.digest] = nil }
    }
}
