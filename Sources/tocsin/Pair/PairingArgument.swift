import ArgumentParser
import TNP

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

    /// A line of standard input where `-` stands, else what stands there.
    static func text(_ argument: String) -> String { argument == "-" ? (readLine() ?? "") : argument }

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
