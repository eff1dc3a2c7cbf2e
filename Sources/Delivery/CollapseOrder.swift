// SPDX-License-Identifier: Apache-2.0

import TNP

/// Remembers, for each device and collapse id, the newest notification that a provider has accepted, so that an older
/// one that waits for another attempt cannot replace it on the phone. Bounded.
struct CollapseOrder {
    private var newest: RecentTable<UInt64>

    /// - Parameter capacity: the maximum number of collapse ids remembered at a time.
    init(capacity: Int) { newest = RecentTable(capacity: capacity) }

    /// Records that a provider accepted the envelope with this sequence number.
    mutating func accepted(_ envelope: Envelope, _ sequence: UInt64) {
        guard let key = Self.key(envelope) else { return }
        newest.set(key, to: max(sequence, newest[key] ?? 0))
    }

    /// Whether a provider has accepted a newer envelope with the same device token and collapse id.
    func isReplaced(_ envelope: Envelope, _ sequence: UInt64) -> Bool {
        guard let key = Self.key(envelope), let newest = newest[key] else { return false }
        return newest > sequence
    }

    private static func key(_ envelope: Envelope) -> Int? {
        envelope.collapseID.map { envelope.deviceToken.tableKey(with: $0) }
    }
}
