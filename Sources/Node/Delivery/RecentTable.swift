// SPDX-License-Identifier: Apache-2.0

import Tables

/// A bounded table of numbers that forgets old entries: when the younger half is full, it replaces the older half.
struct RecentTable {
    private var half: Int
    private var young = FlatTable<UInt64>(empty: 0)
    private var old = FlatTable<UInt64>(empty: 0)

    /// - Parameter capacity: the maximum number of entries at a time.
    init(capacity: Int) { half = max(1, capacity / 2) }

    /// The number of entries, with those that are in both halves counted twice.
    var count: Int { young.count + old.count }

    /// Changes the maximum number of entries. Forgets entries of a half that has more than it may hold.
    mutating func resize(to capacity: Int) {
        half = max(1, capacity / 2)
        Self.shrink(&old, to: half)
        Self.shrink(&young, to: half)
    }

    private static func shrink(_ table: inout FlatTable<UInt64>, to count: Int) {
        var surplus = table.count - count
        table.removeAll { _ in
            surplus -= 1
            return surplus >= 0
        }
    }

    subscript(key: TableKey) -> UInt64? { young[key.bits] ?? old[key.bits] }

    mutating func set(_ key: TableKey, to value: UInt64) {
        if young.count >= half, young[key.bits] == nil {
            old = young
            young = FlatTable(empty: 0)
        }
        young.set(key.bits, to: value)
    }
}
