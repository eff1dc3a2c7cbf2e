// SPDX-License-Identifier: Apache-2.0

/// Text on its way to a terminal. A node, a phone and a file may say anything; nothing of it may move the cursor, hide or
/// reorder what is printed (Trojan Source, CVE-2021-42574), or fill the screen.
package enum TerminalText {
    /// Characters of a line on standard error.
    package static let longestLine = 1000

    /// The text without control characters other than line ends, without format characters (bidirectional overrides,
    /// zero-width ones) and without line and paragraph separators. The escape sequences for colours that this program itself
    /// uses stay.
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

    /// A text of somebody else's as part of a line: without line ends and colours, and cut to ``longestLine`` characters.
    package static func line(_ text: String) -> String {
        let line = String(String.UnicodeScalarView(text.unicodeScalars.filter { !isUnsafe($0) && $0 != "\n" }))
        return line.count > longestLine ? line.prefix(longestLine) + "…" : line
    }

    /// The same, each line of it cut to ``longestLine`` characters.
    package static func safeLines(_ text: String) -> String {
        safe(text).split(separator: "\n", omittingEmptySubsequences: false)
            .map { $0.count > longestLine ? $0.prefix(longestLine) + "…" : $0 }
            .joined(separator: "\n")
    }

    /// What ``Terminal``, `FindingLines` and `QRCode` write.
    private static let colours = [0, 1, 2, 31, 32, 33].map { "\u{1B}[\($0)m" } + ["\u{1B}[38;5;16;48;5;231m"]

    private static func isUnsafe(_ scalar: Unicode.Scalar) -> Bool {
        // Most of what is printed: no table is asked.
        if scalar.isASCII { return scalar.value < 0x20 && scalar != "\n" || scalar.value == 0x7F }
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: return true
        default: return false
        }
    }
}
