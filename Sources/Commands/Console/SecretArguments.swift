// SPDX-License-Identifier: Apache-2.0

/// Arguments of the command line that may be secrets: pairing tokens, device tokens, keys and handles, which people also
/// give by mistake in the place of something else. No message repeats them.
package enum SecretArguments {
    /// Takes the place of an argument.
    private static let substitute = "[not shown: it may be secret]"
    /// No name, number or option is as long as a key; paths and onion addresses have a `/` or a `.`.
    private static let shortestSecret = 32
    /// The length of a key of 32 bytes in Base64, which may contain a `/`.
    private static let base64KeyLength = 44

    /// A text without the arguments that may be secrets.
    package static func removed(from text: String, arguments: [String] = CommandLine.arguments) -> String {
        arguments.dropFirst().flatMap(candidates).filter(mayBeSecret)
            .sorted { $0.utf8.count > $1.utf8.count }
            .reduce(text) { $0.replacing($1, with: substitute) }
    }

    /// What an argument consists of: `--option=VALUE` has a value, and `@FILE` a name.
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
