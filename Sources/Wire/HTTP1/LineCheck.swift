// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// Checks lines: CR LF as the only line ending, and no line folding. llhttp, which refuses other control bytes itself,
/// accepts a lone LF and folded lines.
struct LineCheck {
    enum Step { case continues, endOfLine, emptyLine, broken }

    private enum State { case lineStart, line, lineEnding, emptyLineEnding, mustEnd }
    private var state = State.lineStart

    /// Requires the next byte to be the CR that ends the line.
    mutating func expectLineEnd() { state = .mustEnd }

    /// Whether a CR has arrived and its LF has not.
    var isEnding: Bool { state == .lineEnding || state == .emptyLineEnding }

    /// The number of bytes at the start of `bytes` that are within a line: for each of them, ``check(_:)`` would return
    /// `continues` and change nothing.
    func plainBytes(in bytes: UnsafeRawBufferPointer) -> Int {
        guard state == .line else { return 0 }
        let end = bytes.offset(of: UInt8(ascii: "\r")) ?? bytes.count
        return UnsafeRawBufferPointer(rebasing: bytes[..<end]).offset(of: UInt8(ascii: "\n")) ?? end
    }

    /// Takes the next byte.
    mutating func check(_ byte: UInt8) -> Step {
        switch (state, byte) {
        case (.lineEnding, UInt8(ascii: "\n")):
            state = .lineStart
            return .endOfLine
        case (.emptyLineEnding, UInt8(ascii: "\n")):
            state = .lineStart
            return .emptyLine
        case (.lineEnding, _), (.emptyLineEnding, _), (_, UInt8(ascii: "\n")): return .broken
        case (.lineStart, UInt8(ascii: "\r")): state = .emptyLineEnding
        case (.line, UInt8(ascii: "\r")), (.mustEnd, UInt8(ascii: "\r")): state = .lineEnding
        case (.mustEnd, _), (.lineStart, UInt8(ascii: " ")), (.lineStart, UInt8(ascii: "\t")): return .broken
        case (.lineStart, _): state = .line
        case (.line, _): break
        }
        return .continues
    }
}
