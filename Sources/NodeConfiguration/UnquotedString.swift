// SPDX-License-Identifier: Apache-2.0

/// Detects strings without quotes, for which the error of the TOML parser suggests no remedy.
enum UnquotedString {
    /// A hint for a line that is not valid TOML; `nil` if the line contains no unquoted string.
    static func hint(on line: some StringProtocol) -> String? {
        guard let equals = line.firstIndex(of: "=") else { return nil }
        let key = line[..<equals].drop(while: \.isWhitespace)
        let name = key.prefix { $0.isLetter || $0.isNumber || $0 == "_" || $0 == "-" }
        let value = line[line.index(after: equals)...].drop(while: \.isWhitespace)
        guard !name.isEmpty, let first = value.first, first.isLetter || "/~.@".contains(first) || hasLetters(value)
        else { return nil }
        guard !["true", "false", "inf", "nan"].contains(where: { value.hasPrefix($0) }) else { return nil }
        return "a string needs quotes: \(name) = \"…\""
    }

    /// Whether a value begins like a number but is not one, e.g. an address.
    private static func hasLetters(_ value: some StringProtocol) -> Bool {
        guard value.first?.isNumber == true else { return false }
        let word = value.prefix { !$0.isWhitespace && $0 != "#" }
        return word.contains(":") || word.filter { $0 == "." }.count > 1
    }
}
