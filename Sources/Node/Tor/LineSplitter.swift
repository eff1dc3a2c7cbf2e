// SPDX-License-Identifier: Apache-2.0

/// Splits a byte stream into lines.
struct LineSplitter {
    /// Maximum line length in bytes; the rest of a longer line is dropped.
    static let maximumLineLength = 4096

    private var rest: [UInt8] = []

    /// Returns the lines completed by `bytes`, without line ends.
    mutating func lines(of bytes: some Sequence<UInt8>) -> [String] {
        var lines: [String] = []
        for byte in bytes {
            if byte == UInt8(ascii: "\n") {
                lines.append(take())
            } else if rest.count < Self.maximumLineLength {
                rest.append(byte)
            }
        }
        return lines
    }

    /// Returns the last line if it had no line end.
    mutating func finish() -> String? { rest.isEmpty ? nil : take() }

    private mutating func take() -> String {
        if rest.last == UInt8(ascii: "\r") { rest.removeLast() }
        defer { rest.removeAll(keepingCapacity: true) }
        return String(decoding: rest, as: UTF8.self)
    }
}
