// SPDX-License-Identifier: Apache-2.0

/// Values at stable slots; free slots are reused. A handle of a removed value never refers to a later value.
public struct Slab<Value> {
    /// Refers to one value until the value is removed.
    public struct Handle: Hashable, Sendable {
        @usableFromInline let slot: UInt32
        @usableFromInline let generation: UInt32

        /// The handle as a number, for callers that pass it through other code.
        @inlinable public var rawValue: UInt64 { UInt64(generation) << 32 | UInt64(slot) }

        /// The handle with this number.
        @inlinable public init(rawValue: UInt64) {
            slot = UInt32(truncatingIfNeeded: rawValue)
            generation = UInt32(truncatingIfNeeded: rawValue >> 32)
        }

        @inlinable init(slot: UInt32, generation: UInt32) {
            self.slot = slot
            self.generation = generation
        }
    }

    @usableFromInline struct Entry {
        @usableFromInline var generation: UInt32 = 0
        /// `nil` in a free slot.
        @usableFromInline var value: Value?

        @inlinable init(value: Value?) { self.value = value }
    }

    @usableFromInline var entries: [Entry] = []
    @usableFromInline var unused: [UInt32] = []

    /// An empty slab.
    @inlinable public init() {}

    /// Number of values.
    @inlinable public var count: Int { entries.count - unused.count }

    /// The value of a handle, which must not have been removed.
    @inlinable public subscript(handle: Handle) -> Value {
        _read {
            precondition(contains(handle), "the value was removed")
            yield entries[Int(handle.slot)].value!
        }
        _modify {
            precondition(contains(handle), "the value was removed")
            yield &entries[Int(handle.slot)].value!
        }
    }

    /// Whether the handle's value is still there.
    @inlinable public func contains(_ handle: Handle) -> Bool {
        entries[Int(handle.slot)].generation == handle.generation && entries[Int(handle.slot)].value != nil
    }

    /// Adds a value.
    @inlinable public mutating func insert(_ value: consuming Value) -> Handle {
        guard let slot = unused.popLast() else {
            entries.append(Entry(value: value))
            return Handle(slot: UInt32(entries.count - 1), generation: 0)
        }
        entries[Int(slot)].value = value
        return Handle(slot: slot, generation: entries[Int(slot)].generation)
    }

    /// Removes and returns the value of a handle; `nil` if it was removed before.
    @discardableResult
    @inlinable public mutating func remove(_ handle: Handle) -> Value? {
        guard contains(handle) else { return nil }
        let value = entries[Int(handle.slot)].value.take()
        entries[Int(handle.slot)].generation &+= 1
        unused.append(handle.slot)
        return value
    }
}
