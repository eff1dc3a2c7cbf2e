// SPDX-License-Identifier: Apache-2.0

/// Makes text safe to print on a terminal. Text from a node, a phone or a file must not move the cursor, hide or
/// reorder what is printed (Trojan Source, CVE-2021-42574), or fill the screen.
package enum TerminalText {
    /// The longest line on standard error, in characters. Longer lines are cut.
    package static let maximumLineLength = 1000

    /// Removes control characters except line feeds, format characters (bidirectional overrides, zero-width
    /// characters), and line and paragraph separators. Keeps the escape sequences for colours that this program itself
    /// writes.
    package static func safe(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: isUnsafe) else { return text }
        var output = String.UnicodeScalarView()
        var rest = Substring(text).unicodeScalars[...]
        while let scalar = rest.first {
            if scalar == "\u{1B}", let colour = colours.first(where: { rest.starts(with: $0.unicodeScalars) }) {
                output.append(contentsOf: colour.unicodeScalars)
                rest = rest.dropFirst(colour.unicodeScalars.count)
                continue
            }
            rest.removeFirst()
            if !isUnsafe(scalar) { output.append(scalar) }
        }
        return String(output)
    }

    /// Makes foreign text fit into a line: removes line feeds and colours as well, and cuts it to ``maximumLineLength``
    /// characters.
    package static func line(_ text: String) -> String {
        let line = String(String.UnicodeScalarView(text.unicodeScalars.filter { !isUnsafe($0) && $0 != "\n" }))
        return line.count > maximumLineLength ? line.prefix(maximumLineLength) + "…" : line
    }

    /// As ``safe(_:)``, with each line cut to ``maximumLineLength`` characters.
    package static func safeLines(_ text: String) -> String {
        safe(text).split(separator: "\n", omittingEmptySubsequences: false)
            .map { $0.count > maximumLineLength ? $0.prefix(maximumLineLength) + "…" : $0 }
            .joined(separator: "\n")
    }

    /// The escape sequences that ``Terminal``, `FindingLines` and `QRCode` write.
    private static let colours = [0, 1, 2, 31, 32, 33].map { "\u{1B}[\($0)m" } + ["\u{1B}[38;5;16;48;5;231m"]

    private static func isUnsafe(_ scalar: Unicode.Scalar) -> Bool {
        // Fast path for most text: no look-up in the Unicode tables.
        if scalar.isASCII { return scalar.value < 0x20 && scalar != "\n" || scalar.value == 0x7F }
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: return true
        default: return false
        }
    }
}
