// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Glibc
import TNP
import TocsinClient

/// The phone's pairing token, as all commands take it that need one.
struct PairingArgument: ParsableArguments {
    @Argument(
        help: """
            The phone's pairing token, magic|descriptor|key|device token. It holds the key: - reads it from standard \
            input, where other users of this machine do not see it.
            """)
    var pairing: String

    /// What was given, as it is.
    func text() -> String { Self.text(pairing) }

    /// Standard input where `-` stands, without the line end of every file; else what stands there.
    static func text(_ argument: String) -> String {
        guard argument == "-" else { return argument }
        // A person presses return and waits; a file may have been broken into lines on its way.
        var text = readLine(strippingNewline: false) ?? ""
        while isatty(STDIN_FILENO) == 0, text.utf8.count <= PairingReview.longestText,
            let line = readLine(strippingNewline: false)
        {
            text += line
        }
        if text.last?.isNewline == true { text.removeLast() }
        return text
    }

    /// Reads the pairing token, or says what is wrong with it and ends.
    func read() throws -> PairingToken {
        do {
            return try PairingToken(Self.oneLine(text()))
        } catch {
            throw fail("\(error)", ExitStatus.usage)
        }
    }

    /// A terminal or a mail may have broken it.
    static func oneLine(_ text: String) -> String { text.split(whereSeparator: \.isNewline).joined() }
}
