// SPDX-License-Identifier: Apache-2.0

/// Arguments of the command line that may be secrets: pairing tokens, device tokens, keys and handles, which people also
/// give by mistake in the place of something else. No message repeats them.
package enum SecretArguments {
    /// The text that replaces a secret argument.
    private static let substitute = "[not shown: it may be secret]"
    /// Minimum length of a secret, in bytes. Names, numbers and options are shorter; paths and onion addresses contain
    /// a `/` or a `.`.
    private static let shortestSecret = 32
    /// The length of the Base64 of a key of 32 bytes, which may contain a `/`.
    private static let base64KeyLength = 44

    /// Replaces the arguments that may be secrets in a text.
    package static func removed(from text: String, arguments: [String] = CommandLine.arguments) -> String {
        arguments.dropFirst().flatMap(candidates).filter(mayBeSecret)
            .sorted { $0.utf8.count > $1.utf8.count }
            .reduce(text) { $0.replacing($1, with: substitute) }
    }

    /// The parts of an argument that may be secret: an argument itself, the `VALUE` of `--option=VALUE`, and the name
    /// in `@FILE`.
    private static func candidates(_ argument: String) -> [String] {
        let value = argument.hasPrefix("-") ? argument.drop { $0 != "=" }.dropFirst() : argument[...]
        return [String(value), String(value.drop { $0 == "@" })]
    }

    private static func mayBeSecret(_ argument: String) -> Bool {
        if argument.contains("|") || argument.hasPrefix("handle:") { return true }
        if argument.utf8.count == base64KeyLength, argument.hasSuffix("=") { return true }
        return argument.utf8.count >= shortestSecret && !argument.contains { $0.isWhitespace || $0 == "/" || $0 == "." }
    }
}
