// SPDX-License-Identifier: Apache-2.0

import Cryptography

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
    var mayEnd: Bool { [.size, .name, .value, .afterQuoted].contains(state) }

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
        case .start: return Hex.isDigit(byte) ? .size : nil
        case .size where Hex.isDigit(byte): return .size
        case .value where Self.isToken(byte): return .value
        case .size, .value, .beforeSemicolon, .afterQuoted:
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
        case .quoted:
            switch byte {
            case UInt8(ascii: "\""): return .afterQuoted
            case UInt8(ascii: "\\"): return .quotedPair
            default: return .quoted
            }
        case .quotedPair: return .quoted
        }
    }

    /// `tchar` (RFC 9110 §5.6.2).
    private static func isToken(_ byte: UInt8) -> Bool {
        let character = Character(Unicode.Scalar(byte))
        return character.isASCII
            && (character.isLetter || character.isNumber || "!#$%&'*+-.^_`|~".contains(character))
    }
}
