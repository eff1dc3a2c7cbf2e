// SPDX-License-Identifier: Apache-2.0

/// A bounded table that evicts the idle entry which was used longest ago (LRU).
package struct LRUTable<Key: Hashable, Value> {
    /// What the table has for a key.
    package enum Slot {
        case known(Value)
        /// There is room for a new value: ``insert(_:for:)`` it. `evicted` is the value that made room; `nil` if there
        /// was room.
        case new(evicted: Value?)
        /// The table is full, and no entry is idle.
        case full
    }

    private let maximum: Int
    private var entries: [Key: (value: Value, lastUse: UInt64)] = [:]
    private var uses: UInt64 = 0

    /// - Parameter maximum: the largest number of entries.
    package init(maximum: Int) { self.maximum = maximum }

    /// The values, in no particular order.
    package var values: [Value] { entries.values.map(\.value) }

    /// Looks a key up, and makes room for it if it is new.
    /// - Parameter isIdle: whether an entry may be evicted; `nil` if none may.
    package mutating func slot(for key: Key, isIdle: ((Value) -> Bool)?) -> Slot {
        if let value = entries[key]?.value {
            insert(value, for: key)
            return .known(value)
        }
        guard entries.count >= maximum else { return .new(evicted: nil) }
        guard let isIdle else { return .full }
        let idle = entries.filter { isIdle($0.value.value) }.min { $0.value.lastUse < $1.value.lastUse }
        guard let idle else { return .full }
        entries[idle.key] = nil
        return .new(evicted: idle.value.value)
    }

    /// Sets the value of a key, for which ``slot(for:isIdle:)`` has made room.
    package mutating func insert(_ value: Value, for key: Key) {
        uses += 1
        entries[key] = (value, uses)
    }

    /// Removes a key.
    package mutating func remove(_ key: Key) { entries[key] = nil }
}
