// SPDX-License-Identifier: Apache-2.0

/// Finds texts without quotes, which TOML's parser speaks of in words that name no cure.
enum UnquotedString {
    /// What to say of a line that is not TOML; nil: its fault is another.
    static func hint(on line: some StringProtocol) -> String? {
        guard let equals = line.firstIndex(of: "=") else { return nil }
        let key = line[..<equals].drop(while: \.isWhitespace)
        let name = key.prefix { $0.isLetter || $0.isNumber || $0 == "_" || $0 == "-" }
        let value = line[line.index(after: equals)...].drop(while: \.isWhitespace)
        guard !name.isEmpty, let first = value.first, first.isLetter || "/~.@".contains(first) || hasLetters(value)
        else {
            return nil
        }
        guard !["true", "false", "inf", "nan"].contains(where: { value.hasPrefix($0) }) else { return nil }
        return "a text needs quotes: \(name) = \"…\""
    }

    /// Whether it begins as a number and goes on as none, e.g. an address.
    private static func hasLetters(_ value: some StringProtocol) -> Bool {
        guard value.first?.isNumber == true else { return false }
        let word = value.prefix { !$0.isWhitespace && $0 != "#" }
        return word.contains(":") || word.filter { $0 == "." }.count > 1
    }
}
