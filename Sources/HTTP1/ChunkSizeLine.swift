// SPDX-License-Identifier: Apache-2.0

/// Checks a chunk's size line, byte by byte (RFC 9112 §7.1, §7.1.1):
///
///     chunk-size [ *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS ( token / quoted-string ) ] ) ]
///
/// http-parser accepts any bytes after the size and a space.
struct ChunkSizeLine {
    private enum State {
        case start, size
        /// White space after the size or after an extension: only `;` may follow.
        case beforeSemicolon
        case beforeName, name
        /// White space after a name: `=` or `;` may follow.
        case afterName
        case beforeValue, value
        case quoted, quotedPair, afterQuoted
    }

    private var state = State.start

    /// Whether the line may end here.
    var mayEnd: Bool {
        switch state {
        case .size, .name, .value, .afterQuoted: true
        case .start, .beforeSemicolon, .beforeName, .afterName, .beforeValue, .quoted, .quotedPair: false
        }
    }

    /// Takes the next byte, which is not part of the line end.
    /// - Returns: `false` if the grammar does not allow it.
    mutating func take(_ byte: UInt8) -> Bool {
        guard let next = next(byte) else { return false }
        state = next
        return true
    }

    private func next(_ byte: UInt8) -> State? {
        let isSpace = byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t")
        switch state {
        case .start: return Self.isHexDigit(byte) ? .size : nil
        case .size:
            if Self.isHexDigit(byte) { return .size }
            return isSpace ? .beforeSemicolon : byte == UInt8(ascii: ";") ? .beforeName : nil
        case .beforeSemicolon, .afterQuoted:
            return isSpace ? .beforeSemicolon : byte == UInt8(ascii: ";") ? .beforeName : nil
        case .beforeName: return isSpace ? .beforeName : Self.isToken(byte) ? .name : nil
        case .name where Self.isToken(byte): return .name
        case .name, .afterName:
            switch byte {
            case UInt8(ascii: "="): return .beforeValue
            case UInt8(ascii: ";"): return .beforeName
            default: return isSpace ? .afterName : nil
            }
        case .beforeValue:
            if byte == UInt8(ascii: "\"") { return .quoted }
            return isSpace ? .beforeValue : Self.isToken(byte) ? .value : nil
        case .value:
            if Self.isToken(byte) { return .value }
            return isSpace ? .beforeSemicolon : byte == UInt8(ascii: ";") ? .beforeName : nil
        case .quoted:
            switch byte {
            case UInt8(ascii: "\""): return .afterQuoted
            case UInt8(ascii: "\\"): return .quotedPair
            default: return .quoted
            }
        case .quotedPair: return .quoted
        }
    }

    private static func isHexDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "F"),
            UInt8(ascii: "a")...UInt8(ascii: "f"):
            true
        default: false
        }
    }

    /// `tchar` (RFC 9110 §5.6.2).
    private static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "a")...UInt8(ascii: "z"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}
