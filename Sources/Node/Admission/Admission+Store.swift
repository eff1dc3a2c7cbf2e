// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Time

extension Admission {
    /// The changes to write to the store.
    package struct Changes: Sendable, Redacted {
        /// The records to insert or replace.
        package var records: [TokenRecord]
        /// The hashes of the device tokens to delete.
        package var forgotten: [UInt64]
    }

    /// Sorts the changes by their row ids in the store, so that each of the following transactions writes neighbouring
    /// rows: unsorted, a million records take seconds.
    package mutating func orderChanges() {
        unsaved.sort { Int64(bitPattern: $0) < Int64(bitPattern: $1) }
        forgotten.sort { Int64(bitPattern: $0) < Int64(bitPattern: $1) }
    }

    /// The number of changes that the store does not have yet, as far as they are listed.
    package var unsavedCount: Int { unsaved.count + forgotten.count }

    /// Takes the changes that the store does not have yet; `nil` if there are none.
    /// - Parameter limit: the maximum number of records, and of deletions. The next call returns the rest.
    package mutating func takeChanges(atMost limit: Int) -> Changes? {
        if unsaved.isEmpty, hasUnlisted {
            unsaved = tokens.unsaved(atMost: maximumListed)
            hasUnlisted = unsaved.count == maximumListed
        }
        guard !unsaved.isEmpty || !forgotten.isEmpty else { return nil }
        var records: [TokenRecord] = []
        let now = unsaved.suffix(limit)
        unsaved.removeLast(now.count)
        for token in now {
            tokens.update(token) { record in
                // A record that was removed and inserted again is listed twice.
                guard record.isUnsaved else { return }
                record.isUnsaved = false
                if record.isPersistent { records.append(record) } else { forgotten.append(token) }
            }
        }
        let gone = forgotten.suffix(limit)
        forgotten.removeLast(gone.count)
        // A token that was removed and inserted again must not be deleted.
        return Changes(records: records, forgotten: gone.filter { tokens[$0]?.isPersistent != true })
    }

    /// Queues changes again that the store failed to write.
    package mutating func requeue(_ changes: Changes) {
        for saved in changes.records {
            var isChanged = false
            tokens.update(saved.token) { record in
                guard !record.isUnsaved else { return }
                record.isUnsaved = true
                isChanged = true
            }
            if isChanged { list(saved.token) }
        }
        for token in changes.forgotten where forgotten.count < min(maximumListed, settings.deviceTokens) {
            forgotten.append(token)
        }
    }

    /// Restores a stored record when the node starts.
    package mutating func restore(_ stored: TokenRecord, on moment: ClockReading) {
        var record = stored
        // The allowance is not stored: its time is one of the earlier process's monotonic clock.
        record.allowance = Allowance()
        // A record from a time when the clock was ahead ages from now on.
        record.clamp(to: moment.day, moment.milliseconds)
        record.standing = settings.standing(of: record, on: moment.day)
        settings.forgetOldBinding(of: &record, on: moment.day)
        // No token has the hash 0, which marks an empty slot.
        guard record.isPersistent, record.token != 0 else {
            // What is not listed stays in the store until the next start.
            if forgotten.count < min(maximumListed, settings.deviceTokens) { forgotten.append(record.token) }
            return
        }
        if let gone = tokens.restore(record) { forget(gone) }
    }

    /// The maximum size of the table of device tokens, in bytes.
    package static func maximumBytes(deviceTokens: Int) -> Int { TokenTable.maximumBytes(capacity: deviceTokens) }

    /// The maximum size of the table of circuits, in bytes.
    package static func maximumBytes(circuits: Int) -> Int { Circuits.maximumBytes(capacity: circuits) }

    /// Numbers of known device tokens and circuits.
    package struct Counts: Sendable, Equatable {
        /// Device tokens that a push service has accepted.
        package var proven: Int
        /// Device tokens that are neither proven nor gone.
        package var unproven: Int
        /// Device tokens that are gone.
        package var dead: Int
        /// Circuits with a connection, or with state that has not expired.
        package var circuits: Int
    }

    package var known: Counts {
        Counts(
            proven: tokens.count(of: .proven), unproven: tokens.count(of: .unproven), dead: tokens.count(of: .dead),
            circuits: circuits.count)
    }

    /// What the tables hold, and the bounds from which their memory follows (Docs/admission.md, Memory).
    package var tables: [(name: String, entries: Int, bound: Int)] {
        let tokens = known.proven + known.unproven + known.dead
        return [
            ("device tokens", tokens, settings.deviceTokens), ("circuits", circuits.count, settings.circuits),
            ("unsaved device tokens", unsaved.count, maximumListed),
            ("forgotten device tokens", forgotten.count, min(maximumListed, settings.deviceTokens)),
            ("spent proofs", spentProofs.count, 2 * SpentProofs.capacity),
            ("bad device tokens", badTokens.count, BadTokens.capacity),
        ]
    }
}
