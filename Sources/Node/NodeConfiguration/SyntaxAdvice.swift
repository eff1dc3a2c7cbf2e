// SPDX-License-Identifier: Apache-2.0

/// Advice on common mistakes in hand-written TOML. The parser's own error says only what the parser expected next,
/// which does not help somebody who wrote `yes` for `true`.
enum SyntaxAdvice {
    /// One sentence for a line that is not valid TOML; `nil` if the line shows no common mistake.
    static func sentence(for line: some StringProtocol) -> String? {
        let line = trimmed(line)
        guard let first = line.first, first != "#" else { return nil }
        if let quote = line.first(where: curlyQuotes.contains) {
            return "\(quote) is a typographic quotation mark: TOML wants the straight one, \""
        }
        if let space = line.first(where: { $0.isWhitespace && $0 != " " && $0 != "\t" }),
            let code = space.unicodeScalars.first
        {
            return
                "there is a space that is not plain (U+\(String(code.value, radix: 16, uppercase: true))): type it anew"
        }
        if first == ";" || line.hasPrefix("//") { return "a comment begins with #" }
        if first == "[" {
            let brackets = line.hasPrefix("[[") ? "]]" : "]"
            return line.contains("=") || line.contains(brackets) ? nil : "a table's name ends with \(brackets)"
        }
        guard let equals = line.firstIndex(of: "=") else { return missingEquals(line) }
        let name = trimmed(line[..<equals])
        guard !name.isEmpty else { return nil }
        guard name.allSatisfy(isBare) else {
            return name.contains(" ") ? "only one key stands before =" : nil
        }
        return valueSentence(shown(name), trimmed(line[line.index(after: equals)...]))
    }

    private static let curlyQuotes: Set<Character> = ["“", "”", "„", "‟", "‘", "’", "‚", "«", "»", "`", "´"]
    /// Words that other languages use for `true`, for `false` and for no value.
    private static let trueWords: Set = ["yes", "on", "enable", "enabled", "t", "y"]
    private static let falseWords: Set = ["no", "off", "disable", "disabled", "f", "n"]
    private static let nothingWords: Set = ["none", "null", "nil"]

    /// A key as an error shows it. Text without the form of a key is replaced by `KEY`: it may be a secret that was
    /// pasted into the file.
    private static func shown(_ name: Substring) -> Substring {
        let isKey = name.count <= 32 && name.allSatisfy { $0.isASCII && ($0.isLowercase || $0 == "_" || $0 == ".") }
        return isKey ? name : "KEY"
    }

    private static func missingEquals(_ line: some StringProtocol) -> String? {
        let name = Substring(line.prefix(while: isBare))
        guard !name.isEmpty, name.count < line.count else { return nil }
        return "= is missing after the key: \(shown(name)) = …"
    }

    private static func valueSentence(_ name: some StringProtocol, _ value: some StringProtocol) -> String? {
        guard let first = value.first, first != "#" else { return "the value of \(name) is missing" }
        let quote = first == "\"" || first == "'" ? first : nil
        if let quote {
            let rest = value.dropFirst()
            guard let end = rest.firstIndex(of: quote) else { return "the closing \(quote) is missing" }
            return afterValue(rest[rest.index(after: end)...])
        }
        if first == "[" {
            return value.contains("]")
                ? "the values of a list have commas between them" : "the list's closing ] is missing"
        }
        let word = value.prefix { !$0.isWhitespace && $0 != "#" && $0 != ";" && $0 != "," }
        let lowercase = word.lowercased()
        if lowercase == "true" || lowercase == "false" {
            return word == lowercase
                ? afterValue(value.dropFirst(word.count))
                : "TOML writes it in lower case: \(name) = \(lowercase)"
        }
        if trueWords.contains(lowercase) { return "\(word) is no value of TOML: \(name) = true, or a string in quotes" }
        if falseWords.contains(lowercase) {
            return "\(word) is no value of TOML: \(name) = false, or a string in quotes"
        }
        if nothingWords.contains(lowercase) { return "\(word) is no value of TOML: leave the line out" }
        guard first.isASCII, first.isNumber else {
            return first == "=" || first == "{" || first == ":" ? nil : "a string needs quotes: \(name) = \"…\""
        }
        return numberSentence(name, value, word)
    }

    private static func numberSentence(
        _ name: some StringProtocol, _ value: some StringProtocol, _ word: some StringProtocol
    ) -> String? {
        if word.contains(":") || word.filter({ $0 == "." }).count > 1 {
            return "a string needs quotes: \(name) = \"…\""
        }
        let digits = word.prefix { $0.isASCII && ($0.isNumber || $0 == "_") }
        let rest = value.dropFirst(word.count)
        if rest.first == ",", rest.dropFirst().first?.isNumber == true {
            return "a number has no commas; _ may stand between digits: 1_000"
        }
        guard digits.count == word.count else { return "a number has no unit" }
        if digits.count > 1, digits.first == "0" { return "a number has no leading zeroes" }
        guard let next = trimmed(rest).first else { return nil }
        if next.isNumber { return "a number has no spaces; _ may stand between digits: 1_000" }
        return next.isLetter || next == "%" ? "a number has no unit" : afterValue(rest)
    }

    /// Advice on the text between a value and the end of its line; `nil` if it is valid.
    private static func afterValue(_ rest: some StringProtocol) -> String? {
        let rest = trimmed(rest)
        guard let first = rest.first, first != "#" else { return nil }
        return first == ";" || first == ","
            ? "a line ends without \(first)" : "one value only: a comment begins with #, a list stands in [ ]"
    }

    private static func isBare(_ character: Character) -> Bool {
        character.isASCII && (character.isLetter || character.isNumber || "_-.\"".contains(character))
    }

    private static func trimmed(_ text: some StringProtocol) -> Substring {
        let isBlank = { (character: Character) in character == " " || character == "\t" || character.isNewline }
        var rest = Substring(text).drop(while: isBlank)
        while rest.last.map(isBlank) == true { rest.removeLast() }
        return rest
    }
}
