// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// A run of bytes. The fields of a message are slices of the message's own buffer.
public typealias Bytes = ArraySlice<UInt8>

extension [UInt8] {
    /// Appends an integer in network byte order.
    package mutating func append<Number: FixedWidthInteger>(bigEndian number: Number) {
        Swift.withUnsafeBytes(of: number.bigEndian) { append(copying: $0) }
    }
}

/// Reads a payload from its front and checks every length before using it.
struct ByteReader {
    private(set) var rest: Bytes
    /// The name of the message, for error texts.
    private let what: StaticString

    init(_ bytes: Bytes, of what: StaticString) {
        rest = bytes
        self.what = what
    }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func take(_ count: Int) throws(ProtocolError) -> Bytes {
        guard count <= rest.count else { throw .malformed("\(what) is truncated") }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }

    mutating func number<Number: FixedWidthInteger>(_: Number.Type = Number.self) throws(ProtocolError) -> Number {
        try take(MemoryLayout<Number>.size).reduce(0) { $0 << 8 | Number(truncatingIfNeeded: $1) }
    }

    mutating func text(_ count: Int) throws(ProtocolError) -> String {
        guard let text = String(validating: try take(count), as: UTF8.self) else {
            throw .malformed("\(what) contains text that is not UTF-8")
        }
        return text
    }

    func finish() throws(ProtocolError) {
        guard rest.isEmpty else { throw .malformed("\(what) has trailing bytes") }
    }
}
