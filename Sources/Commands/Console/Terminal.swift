// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Output to standard output and standard error. Colours and progress lines are written only to a terminal.
package enum Terminal {
    /// Whether standard error is a terminal.
    package static let isErrorATerminal = isatty(STDERR_FILENO) == 1
    /// Whether standard output is a terminal.
    package static let isOutputATerminal = isatty(STDOUT_FILENO) == 1

    /// Writes text to standard output, without unsafe characters.
    package static func print(_ text: String, end: String = "\n") {
        write(TerminalText.safe(text) + end, to: STDOUT_FILENO)
    }
    /// Writes lines to standard error, without unsafe characters and without arguments that may be secrets
    /// (``SecretArguments``), each cut to ``TerminalText/maximumLineLength``.
    package static func error(_ text: String) {
        write(TerminalText.safeLines(SecretArguments.removed(from: text)) + "\n", to: STDERR_FILENO)
    }

    /// Shows a progress line on standard error; the next one replaces it. Does nothing if standard error is not a
    /// terminal.
    package static func progress(_ text: String) {
        guard isErrorATerminal else { return }
        let line = TerminalText.safeLines(text).split(whereSeparator: \.isNewline).joined(separator: " ")
        write("\r\u{1B}[K\(line)", to: STDERR_FILENO)
    }

    /// Removes the progress line.
    package static func endProgress() {
        if isErrorATerminal { write("\r\u{1B}[K", to: STDERR_FILENO) }
    }

    /// The text in bold, if standard output is a terminal.
    package static func bold(_ text: String) -> String { isOutputATerminal ? "\u{1B}[1m\(text)\u{1B}[0m" : text }
    /// The text dimmed, if standard output is a terminal.
    package static func dim(_ text: String) -> String { isOutputATerminal ? "\u{1B}[2m\(text)\u{1B}[0m" : text }
    /// The text in green, if standard output is a terminal.
    package static func green(_ text: String) -> String { isOutputATerminal ? "\u{1B}[32m\(text)\u{1B}[0m" : text }

    private static func write(_ text: String, to descriptor: Int32) {
        _ = Array(text.utf8).withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
    }

    /// `value` with this many digits after the decimal point.
    package static func number(_ value: Double, digits: Int) -> String {
        var scale = 1.0
        for _ in 0..<digits { scale *= 10 }
        let rounded = Int((value * scale).rounded())
        guard digits > 0 else { return "\(rounded)" }
        let (whole, rest) = rounded.magnitude.quotientAndRemainder(dividingBy: UInt(scale))
        let fraction = "\(rest)"
        let sign = rounded < 0 ? "-" : ""
        return "\(sign)\(whole)." + String(repeating: "0", count: digits - fraction.count) + fraction
    }

    /// Pads text with spaces to a width in characters; `right` aligns it to the right.
    package static func padded(_ text: String, _ width: Int, right: Bool = false) -> String {
        let fill = String(repeating: " ", count: max(0, width - text.count))
        return right ? fill + text : text + fill
    }
}
