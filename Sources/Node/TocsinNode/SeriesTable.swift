// SPDX-License-Identifier: Apache-2.0

/// Series by key. Keeps the last one that was looked up, and finds it without hashing: most events in a row have the
/// same key.
struct SeriesTable<Key: Hashable, Value> {
    /// All values by their keys.
    private(set) var all: [Key: Value] = [:]
    private var lastKey: Key?
    private var lastValue: Value?

    /// The value for a key, created and stored if there is none.
    mutating func value(_ key: Key, orInsert make: (Key) -> Value) -> Value {
        if lastKey == key, let lastValue { return lastValue }
        let value = all.value(key, orInsert: make(key))
        (lastKey, lastValue) = (key, value)
        return value
    }

    /// Removes the values whose keys satisfy `isGone`.
    /// - Returns: the removed values.
    mutating func remove(where isGone: (Key) -> Bool) -> [Value] {
        (lastKey, lastValue) = (nil, nil)
        return all.keys.filter(isGone).compactMap { all.removeValue(forKey: $0) }
    }
}

extension Dictionary {
    /// The value for a key, created and stored if there is none.
    mutating func value(_ key: Key, orInsert make: @autoclosure () -> Value) -> Value {
        if let value = self[key] { return value }
        let value = make()
        self[key] = value
        return value
    }
}
