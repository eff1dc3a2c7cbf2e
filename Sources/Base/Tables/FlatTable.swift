// SPDX-License-Identifier: Apache-2.0

/// A hash table of small values in little memory: open addressing with linear probing, in 64 parts of which each grows
/// by a quarter when it is seven eighths full. Growing copies one part at a time. A large table needs at most
/// ``maximumBytes(entries:)``; a dictionary needs up to twice as much, and three times while it grows.
///
/// A key is a hash that nobody outside can choose, so that the table does not hash it again; its high bits select the
/// part. Values have no references, so that the table never counts any.
public struct FlatTable<Value: BitwiseCopyable> {
    @usableFromInline struct Part {
        /// 0 marks an empty place.
        @usableFromInline var keys: [UInt64] = []
        @usableFromInline var values: [Value] = []
        @usableFromInline var count = 0

        @usableFromInline init() {}
    }

    @inlinable static var partBits: UInt64 { 6 }
    @inlinable static var smallestPart: Int { 8 }

    @usableFromInline var parts = Array(repeating: Part(), count: 1 << Self.partBits)
    @usableFromInline let empty: Value
    @usableFromInline var storedCount = 0
    /// The number of entries.
    @inlinable public var count: Int { storedCount }

    /// - Parameter empty: any value; fills the places without an entry.
    @inlinable public init(empty: Value) { self.empty = empty }

    /// The most bytes of a table of so many entries: 8/7 places for each entry, a quarter more after growing, and a
    /// sixteenth for parts that have more than their share. Does not count that each part grows to a multiple of 8
    /// places, which matters in small tables.
    @inlinable public static func maximumBytes(entries: Int) -> Int {
        let places = Double(entries) * 8 / 7 * 1.25 * 17 / 16
        return Int(places) * (MemoryLayout<UInt64>.stride + MemoryLayout<Value>.stride)
    }

    /// The key as the table holds it: 1 in place of 0, which marks an empty place.
    @inlinable @inline(__always)
    static func stored(_ key: UInt64) -> UInt64 { key == 0 ? 1 : key }

    @inlinable @inline(__always)
    static func part(of key: UInt64) -> Int { Int(key >> (64 - partBits)) }

    /// Where the search for a key begins, in a part of so many places.
    @inlinable @inline(__always)
    static func home(of key: UInt64, places: Int) -> Int {
        Int((key << partBits).multipliedFullWidth(by: UInt64(places)).high)
    }

    /// The place of a key, or the empty place where it belongs. The part must not be full.
    @inlinable @inline(__always)
    static func place(of key: UInt64, in part: borrowing Part) -> Int {
        let places = part.keys.count
        var place = home(of: key, places: places)
        while part.keys[place] != key, part.keys[place] != 0 {
            place += 1
            if place == places { place = 0 }
        }
        return place
    }

    /// The value of a key; `nil` if there is none.
    @inlinable public subscript(key: UInt64) -> Value? {
        let key = Self.stored(key)
        let part = Self.part(of: key)
        guard parts[part].count > 0 else { return nil }
        let place = Self.place(of: key, in: parts[part])
        return parts[part].keys[place] == key ? parts[part].values[place] : nil
    }

    /// Sets the value of a key.
    /// - Returns: whether the key is new.
    @inlinable @discardableResult
    public mutating func set(_ key: UInt64, to value: Value) -> Bool {
        let key = Self.stored(key)
        let part = Self.part(of: key)
        if parts[part].count >= parts[part].keys.count / 8 * 7 { grow(part) }
        let place = Self.place(of: key, in: parts[part])
        let isNew = parts[part].keys[place] == 0
        parts[part].keys[place] = key
        parts[part].values[place] = value
        if isNew {
            parts[part].count += 1
            storedCount += 1
        }
        return isNew
    }

    /// Changes the value of a key; does nothing and returns `nil` if there is none.
    @inlinable public mutating func update<Result>(_ key: UInt64, _ change: (inout Value) -> Result) -> Result? {
        let key = Self.stored(key)
        let part = Self.part(of: key)
        guard parts[part].count > 0 else { return nil }
        let place = Self.place(of: key, in: parts[part])
        return parts[part].keys[place] == key ? change(&parts[part].values[place]) : nil
    }

    /// Removes a key, if it is there.
    @inlinable public mutating func remove(_ key: UInt64) {
        let key = Self.stored(key)
        let part = Self.part(of: key)
        guard parts[part].count > 0 else { return }
        let place = Self.place(of: key, in: parts[part])
        if parts[part].keys[place] == key { remove(at: place, of: part) }
    }

    /// Removes the entry at a place. Moves later entries into the gap if that brings them nearer to their homes,
    /// because a search for them would end at the gap.
    @inlinable mutating func remove(at place: Int, of part: Int) {
        let places = parts[part].keys.count
        var gap = place
        var next = gap
        while true {
            next = next + 1 == places ? 0 : next + 1
            let key = parts[part].keys[next]
            if key == 0 { break }
            let home = Self.home(of: key, places: places)
            let (fromHome, fromGap) = ((next - home + places) % places, (next - gap + places) % places)
            guard fromHome >= fromGap else { continue }
            parts[part].keys[gap] = key
            parts[part].values[gap] = parts[part].values[next]
            gap = next
        }
        parts[part].keys[gap] = 0
        parts[part].values[gap] = empty
        parts[part].count -= 1
        storedCount -= 1
    }

    @inlinable mutating func grow(_ part: Int) {
        let old = parts[part]
        // A multiple of 8, so that seven eighths is a whole number.
        let places = max(Self.smallestPart, (old.keys.count * 5 / 4 + 7) / 8 * 8)
        parts[part].keys = Array(repeating: 0, count: places)
        parts[part].values = Array(repeating: empty, count: places)
        for (index, key) in old.keys.enumerated() where key != 0 {
            let place = Self.place(of: key, in: parts[part])
            parts[part].keys[place] = key
            parts[part].values[place] = old.values[index]
        }
    }

    /// Removes the entries for which `isOver` returns `true`.
    @inlinable public mutating func removeAll(where isOver: (Value) -> Bool) {
        for part in parts.indices {
            let over = parts[part].keys.indices.filter {
                parts[part].keys[$0] != 0 && isOver(parts[part].values[$0])
            }.map { parts[part].keys[$0] }
            for key in over { remove(key) }
        }
    }

    /// The bytes of all places.
    var bytes: Int {
        parts.reduce(0) { $0 + $1.keys.count } * (MemoryLayout<UInt64>.stride + MemoryLayout<Value>.stride)
    }

    /// Any key; `nil` if the table is empty.
    @inlinable public var anyKey: UInt64? {
        parts.lazy.filter { $0.count > 0 }.first.flatMap { $0.keys.first { $0 != 0 } }
    }
}
