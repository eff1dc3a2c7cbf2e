// SPDX-License-Identifier: Apache-2.0

/// Finds table headers without a name. The TOML parser (toml++ 3, in TOMLKit 0.6.0) aborts the process on them instead of
/// reporting an error, and a reload may read a half-written file.
enum TableHeaders {
    /// The number of the first line that begins with `[` or `[[` and does not continue with a key; `nil` if there is none.
    static func firstUnnamed(in text: String) -> Int? {
        let lines = text.unicodeScalars.split(omittingEmptySubsequences: false) { isLineEnd($0) }
        for (index, line) in lines.enumerated() {
            var rest = line.drop { isSpace($0) }
            guard rest.first == "[" else { continue }
            rest = rest.dropFirst()
            if rest.first == "[" { rest = rest.dropFirst() }
            guard let first = rest.drop(while: { isSpace($0) }).first, startsKey(first) else { return index + 1 }
        }
        return nil
    }

    private static func isLineEnd(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "\n", "\r", "\u{0B}", "\u{0C}", "\u{85}", "\u{2028}", "\u{2029}": true
        default: false
        }
    }

    private static func isSpace(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.isWhitespace || scalar == "\u{FEFF}"
    }

    private static func startsKey(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "a"..."z", "A"..."Z", "0"..."9", "-", "_", "\"", "'": true
        default: false
        }
    }
}
