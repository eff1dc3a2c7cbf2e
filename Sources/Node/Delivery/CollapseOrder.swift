// SPDX-License-Identifier: Apache-2.0

import TNP

/// Remembers, for each device and collapse id, the newest notification that a provider has accepted, so that an older
/// one that waits for another attempt cannot replace it on the phone. Bounded.
struct CollapseOrder {
    private var newest: RecentTable

    /// - Parameter capacity: the maximum number of collapse ids remembered at a time.
    init(capacity: Int) { newest = RecentTable(capacity: capacity) }

    /// The number of collapse ids remembered.
    var count: Int { newest.count }

    /// The key of an envelope's device token and collapse id; `nil` if it has no collapse id.
    /// - Parameter token: the key of its device token.
    static func key(of envelope: Envelope, _ token: TableKey) -> TableKey? {
        envelope.collapseID.map { TableKey(token, with: $0) }
    }

    /// Records that a provider accepted the envelope with this key and sequence number.
    mutating func accepted(_ key: TableKey, _ sequence: UInt64) {
        newest.set(key, to: max(sequence, newest[key] ?? 0))
    }

    /// Whether a provider has accepted a newer envelope with the same key.
    func isReplaced(_ key: TableKey, _ sequence: UInt64) -> Bool { newest[key].map { $0 > sequence } ?? false }
}
