// SPDX-License-Identifier: Apache-2.0

/// A queue whose memory grows and shrinks in chunks, so that growing copies no element. An element keeps its number as
/// long as it is in the queue.
public struct ChunkedQueue<Element: BitwiseCopyable> {
    /// Elements in a chunk: somewhat fewer than a power of two, because an array has a header and the allocator rounds
    /// up.
    @inlinable static var chunkLength: Int { 1000 }

    @usableFromInline var chunks: [ContiguousArray<Element>] = []
    /// The number of the first element of the first chunk.
    @usableFromInline var base: UInt32 = 0
    /// How many elements of the first chunk were removed.
    @usableFromInline var removed = 0
    @usableFromInline var storedCount = 0
    /// The number of elements.
    @inlinable public var count: Int { storedCount }

    @inlinable public init() {}

    @inlinable public var isEmpty: Bool { count == 0 }

    /// The number of the oldest element.
    @inlinable var firstNumber: UInt32 { base &+ UInt32(removed) }

    /// The oldest element.
    @inlinable public var first: Element? { count == 0 ? nil : chunks[0][removed] }

    /// The element with this number; `nil` if it was removed.
    @inlinable public subscript(number: UInt32) -> Element? {
        guard Int(number &- firstNumber) < count else { return nil }
        let index = Int(number &- base)
        return chunks[index / Self.chunkLength][index % Self.chunkLength]
    }

    /// Appends an element.
    /// - Returns: its number; the numbers begin again after the largest one.
    @inlinable @discardableResult
    public mutating func append(_ element: Element) -> UInt32 {
        let number = firstNumber &+ UInt32(count)
        if chunks.last.map({ $0.count == Self.chunkLength }) ?? true {
            var chunk = ContiguousArray<Element>()
            chunk.reserveCapacity(Self.chunkLength)
            chunks.append(chunk)
        }
        chunks[chunks.count - 1].append(element)
        storedCount += 1
        return number
    }

    /// Removes and returns the oldest element.
    @inlinable public mutating func popFirst() -> Element? {
        guard let first else { return nil }
        storedCount -= 1
        removed += 1
        if removed == Self.chunkLength {
            chunks.removeFirst()
            base = base &+ UInt32(Self.chunkLength)
            removed = 0
        }
        return first
    }
}
