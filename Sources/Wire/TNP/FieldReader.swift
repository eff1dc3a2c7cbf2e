// SPDX-License-Identifier: Apache-2.0

/// Reads fields, `tag u8 ‖ length u16 ‖ value` in strictly ascending order of tag (PROTOCOL §1).
struct FieldReader {
    private var reader: ByteReader
    private var last: Int = -1

    /// In every message, a receiver skips unknown tags from this value up (PROTOCOL §1).
    static let firstSkippable: UInt8 = 0x80

    init(_ reader: ByteReader) { self.reader = reader }

    mutating func next() throws(ProtocolError) -> (tag: UInt8, value: Bytes)? {
        guard !reader.isAtEnd else { return nil }
        let tag: UInt8 = try reader.number()
        guard Int(tag) > last else { throw .malformed("fields are not in ascending order of tag") }
        last = Int(tag)
        let length: UInt16 = try reader.number()
        return (tag, try reader.take(Int(length)))
    }
}

extension [UInt8] {
    mutating func appendField(_ tag: some RawRepresentable<UInt8>, _ value: some Collection<UInt8>) {
        append(tag.rawValue)
        append(bigEndian: UInt16(value.count))
        append(contentsOf: value)
    }

    mutating func appendField<Number: FixedWidthInteger>(_ tag: some RawRepresentable<UInt8>, number: Number) {
        append(tag.rawValue)
        append(bigEndian: UInt16(MemoryLayout<Number>.size))
        append(bigEndian: number)
    }
}

extension Bytes {
    /// Reads these bytes as one integer in network byte order; `nil` if the integer has another width.
    package func number<Number: FixedWidthInteger>(_: Number.Type = Number.self) -> Number? {
        guard count == MemoryLayout<Number>.size else { return nil }
        return reduce(0) { $0 << 8 | Number(truncatingIfNeeded: $1) }
    }
}
