// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Tables

/// Every envelope without a final outcome, in memory or in the spool; excludes rows of the spool that this process has not
/// read yet.
struct PendingTable {
    private var envelopes = Slab<PendingEnvelope>()
    private var byDigest: [Digest256: PendingEnvelope] = [:]

    var count: Int { envelopes.count }

    subscript(digest: Digest256) -> PendingEnvelope? { byDigest[digest] }

    /// The envelope of a number that an action named; `nil` if it has its outcome.
    subscript(number number: UInt64) -> PendingEnvelope? {
        let slot = PendingEnvelope.Slot(rawValue: number)
        return envelopes.contains(slot) ? envelopes[slot] : nil
    }

    /// All envelopes, in no order.
    var all: some Collection<PendingEnvelope> { byDigest.values }

    mutating func insert(_ pending: PendingEnvelope) {
        pending.slot = envelopes.insert(pending)
        byDigest[pending.content.digest] = pending
    }

    /// - Returns: whether the table had the envelope.
    mutating func remove(_ pending: PendingEnvelope) -> Bool {
        guard envelopes.remove(pending.slot) != nil else { return false }
        byDigest[pending.content.digest] = nil
        return true
    }
}
