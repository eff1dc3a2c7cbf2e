// SPDX-License-Identifier: Apache-2.0

import TNP

/// Remembers, for each device and collapse id, the newest notification that a provider has accepted, so that an older
/// one that waits for another attempt cannot replace it on the phone. Bounded.
struct CollapseOrder {
    private let half: Int
    private var young: [Int: UInt64] = [:]
    private var old: [Int: UInt64] = [:]

    /// - Parameter capacity: the maximum number of collapse ids remembered at a time.
    init(capacity: Int) { half = max(1, capacity / 2) }

    /// Records that a provider accepted the envelope with this sequence number.
    mutating func accepted(_ envelope: Envelope, _ sequence: UInt64) {
        guard let key = Self.key(envelope) else { return }
        let newest = max(sequence, young[key] ?? old[key] ?? 0)
        if young.count >= half, young[key] == nil {
            old = young
            young = [:]
        }
        young[key] = newest
    }

    /// Whether a provider has accepted a newer envelope with the same device token and collapse id.
    func isReplaced(_ envelope: Envelope, _ sequence: UInt64) -> Bool {
        guard let key = Self.key(envelope), let newest = young[key] ?? old[key] else { return false }
        return newest > sequence
    }

    private static func key(_ envelope: Envelope) -> Int? {
        envelope.collapseID.map { envelope.deviceToken.tableKey(with: $0) }
    }
}
