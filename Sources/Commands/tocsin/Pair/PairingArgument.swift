// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Glibc
import TNP
import TocsinClient

/// The pairing token argument of all commands that need one.
struct PairingArgument: ParsableArguments {
    @Argument(
        help: """
            The phone's pairing token, magic|descriptor|key|device token. It contains the key: use - to read it from \
            standard input, where other users of this machine cannot see it.
            """)
    var pairing: String

    /// The content of standard input without its last line end if the argument is `-`; else the argument itself.
    static func text(_ argument: String) -> String {
        guard argument == "-" else { return argument }
        // From a terminal, reads one line. In a file, the token may be wrapped into several lines.
        var text = readLine(strippingNewline: false) ?? ""
        while isatty(STDIN_FILENO) == 0, text.utf8.count <= PairingReview.maximumTextLength,
            let line = readLine(strippingNewline: false)
        {
            text += line
        }
        if text.last?.isNewline == true { text.removeLast() }
        return text
    }

    /// Parses the pairing token.
    /// - Throws: the exit code, after printing the error.
    func read() throws -> PairingToken { try Self.parse(pairing) }

    /// Parses a pairing token of the command line.
    /// - Throws: the exit code, after printing the error.
    static func parse(_ argument: String) throws -> PairingToken {
        try failing(with: .usage) { try PairingToken(pasted: text(argument)) }
    }
}
