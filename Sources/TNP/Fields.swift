// SPDX-License-Identifier: Apache-2.0

/// `tag u8 ‖ length u16 ‖ value`, in strictly ascending order of tag (PROTOCOL §1).
struct FieldReader {
    private var reader: ByteReader
    private var last: Int = -1

    /// Tags from here on that are not known are skipped everywhere.
    static let firstSkippable: UInt8 = 0x80

    init(_ reader: ByteReader) { self.reader = reader }

    mutating func next() throws(ProtocolError) -> (tag: UInt8, value: Bytes)? {
        guard !reader.isAtEnd else { return nil }
        let tag: UInt8 = try reader.number()
        guard Int(tag) > last else { throw .malformed("fields that do not ascend") }
        last = Int(tag)
        let length: UInt16 = try reader.number()
        return (tag, try reader.take(Int(length)))
    }
}

extension [UInt8] {
    mutating func appendField(_ tag: UInt8, _ value: some Collection<UInt8>) {
        append(tag)
        append(bigEndian: UInt16(value.count))
        append(contentsOf: value)
    }

    mutating func appendField<Number: FixedWidthInteger>(_ tag: UInt8, number: Number) {
        append(tag)
        append(bigEndian: UInt16(MemoryLayout<Number>.size))
        append(bigEndian: number)
    }
}

extension Bytes {
    /// The number that these bytes are in network order; nil where there are more or fewer than it has.
    func number<Number: FixedWidthInteger>(_: Number.Type = Number.self) -> Number? {
        guard count == MemoryLayout<Number>.size else { return nil }
        return reduce(0) { $0 << 8 | Number(truncatingIfNeeded: $1) }
    }
}
