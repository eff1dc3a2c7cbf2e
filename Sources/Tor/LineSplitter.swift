// SPDX-License-Identifier: Apache-2.0

/// Makes lines of bytes that come in pieces.
struct LineSplitter {
    /// Of a line that is longer the beginning is kept.
    static let longestLine = 4096

    private var rest: [UInt8] = []

    /// The lines that end in `bytes`, without their ends.
    mutating func lines(of bytes: some Sequence<UInt8>) -> [String] {
        var lines: [String] = []
        for byte in bytes {
            if byte == UInt8(ascii: "\n") {
                lines.append(take())
            } else if rest.count < Self.longestLine {
                rest.append(byte)
            }
        }
        return lines
    }

    /// The last line, where it had no end.
    mutating func end() -> String? { rest.isEmpty ? nil : take() }

    private mutating func take() -> String {
        if rest.last == UInt8(ascii: "\r") { rest.removeLast() }
        defer { rest.removeAll(keepingCapacity: true) }
        return String(decoding: rest, as: UTF8.self)
    }
}
