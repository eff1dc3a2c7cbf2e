// SPDX-License-Identifier: Apache-2.0

/// A bounded table that forgets old entries. When its younger half is full, that replaces the older half, so that recent
/// entries stay.
struct RecentTable<Value> {
    private let half: Int
    private var young: [Key: Value] = [:]
    private var old: [Key: Value] = [:]

    /// A keyed hash (`Bytes.tableKey`), which needs no further mixing.
    private struct Key: Hashable {
        let hash: Int

        func _rawHashValue(seed: Int) -> Int { hash ^ seed }
    }

    /// - Parameter capacity: the maximum number of entries at a time.
    init(capacity: Int) { half = max(1, capacity / 2) }

    subscript(key: Int) -> Value? { young[Key(hash: key)] ?? old[Key(hash: key)] }

    mutating func set(_ key: Int, to value: Value) {
        let key = Key(hash: key)
        if young.count >= half, young[key] == nil {
            old = young
            young = [:]
        }
        young[key] = value
    }
}
