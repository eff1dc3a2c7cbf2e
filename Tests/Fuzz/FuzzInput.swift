// SPDX-License-Identifier: Apache-2.0

/// The bytes that libFuzzer has made, read from the front.
struct FuzzInput {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: UnsafeBufferPointer<UInt8>) { rest = Array(bytes)[...] }

    var isEmpty: Bool { rest.isEmpty }

    /// The next byte; 0 at the end.
    mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }

    /// The next `count` bytes, or those that are left.
    mutating func bytes(_ count: Int) -> [UInt8] {
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }

    /// All other bytes.
    mutating func all() -> [UInt8] { bytes(rest.count) }

    /// Bytes with their length, in two bytes, before them.
    mutating func piece() -> [UInt8] { bytes(Int(byte()) << 8 | Int(byte())) }

    /// All other bytes in pieces: the first byte is the size of each, 0 for one piece.
    mutating func pieces() -> [[UInt8]] {
        let size = Int(byte())
        guard size > 0 else { return [all()] }
        var pieces: [[UInt8]] = []
        while !isEmpty { pieces.append(bytes(size)) }
        return pieces
    }
}
