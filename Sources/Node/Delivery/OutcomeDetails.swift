// SPDX-License-Identifier: Apache-2.0

import TNP

/// What remembered outcomes say beyond kind and reason, encoded one after another in chunks of memory, of which the
/// oldest are released first.
struct OutcomeDetails {
    /// Where an outcome is.
    struct Place: BitwiseCopyable {
        /// Nowhere: no details are kept.
        static let none = Place(chunk: 0, start: 0, length: 0)

        /// The number of the chunk, which wraps around.
        fileprivate let chunk: UInt16
        fileprivate let start, length: UInt16
    }

    /// Bytes of a chunk: 32 KiB, which the allocator gives, less the array's header.
    private static let chunkLength = (32 << 10) - 32
    /// Bytes for each outcome: Google's message id, or Apple's time of GONE and a reason.
    private static let bytesPerOutcome = 80

    private let maximumChunks: Int
    private var chunks: [[UInt8]] = []
    /// The number of the first chunk.
    private var firstChunk: UInt16 = 0

    init(maximumBytes: Int) { maximumChunks = max(2, min(maximumBytes / Self.chunkLength, Int(UInt16.max))) }

    /// The bytes for the details of so many outcomes.
    static func maximumBytes(outcomes: Int) -> Int { outcomes * bytesPerOutcome }

    /// Keeps an outcome. If there is no room, leaves its text out, or all details.
    mutating func append(_ outcome: Outcome) -> Place {
        if let place = append(outcome.spooled) { return place }
        guard outcome.text != nil else { return .none }
        var short = outcome
        short.text = nil
        return append(short.spooled) ?? .none
    }

    private mutating func append(_ bytes: [UInt8]) -> Place? {
        guard bytes.count <= Self.chunkLength else { return nil }
        if chunks.last.map({ $0.count + bytes.count > Self.chunkLength }) ?? true {
            guard chunks.count < maximumChunks else { return nil }
            var chunk: [UInt8] = []
            chunk.reserveCapacity(Self.chunkLength)
            chunks.append(chunk)
        }
        let last = chunks.count - 1
        let start = chunks[last].count
        chunks[last] += bytes
        return Place(
            chunk: firstChunk &+ UInt16(last), start: UInt16(start), length: UInt16(bytes.count))
    }

    /// The outcome at a place; `nil` if none is kept there.
    subscript(place: Place) -> Outcome? {
        let chunk = Int(place.chunk &- firstChunk)
        guard place.length > 0, chunk < chunks.count else { return nil }
        let start = Int(place.start)
        return Outcome(spooled: Array(chunks[chunk][start..<start + Int(place.length)]))
    }

    /// Releases the chunks before the one with this place, which is that of the oldest outcome.
    mutating func release(before place: Place) {
        let chunk = Int(place.chunk &- firstChunk)
        guard place.length > 0, chunk > 0, chunk < chunks.count else { return }
        chunks.removeFirst(chunk)
        firstChunk = place.chunk
    }

    mutating func removeAll() {
        firstChunk = firstChunk &+ UInt16(chunks.count)
        chunks = []
    }
}
