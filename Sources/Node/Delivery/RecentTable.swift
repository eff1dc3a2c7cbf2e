// SPDX-License-Identifier: Apache-2.0

/// A bounded table that forgets old entries. When its younger half is full, that replaces the older half, so that recent
/// entries stay.
struct RecentTable<Value> {
    private let half: Int
    private var young: [TableKey: Value] = [:]
    private var old: [TableKey: Value] = [:]

    /// - Parameter capacity: the maximum number of entries at a time.
    init(capacity: Int) { half = max(1, capacity / 2) }

    /// The number of entries, with those that are in both halves counted twice.
    var count: Int { young.count + old.count }

    subscript(key: TableKey) -> Value? { young[key] ?? old[key] }

    mutating func set(_ key: TableKey, to value: Value) {
        if young.count >= half, young[key] == nil {
            old = young
            young = [:]
        }
        young[key] = value
    }
}
