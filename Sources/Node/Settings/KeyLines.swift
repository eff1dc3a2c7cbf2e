// SPDX-License-Identifier: Apache-2.0

/// The lines of a TOML text on which its keys and tables stand: the parser gives lines for syntax errors only. A value
/// of several lines that contains what looks like a key can lead to a wrong line in a message, and to nothing worse.
package struct KeyLines: Sendable {
    private var lines: [String: Int] = [:]

    package init(_ text: String) {
        var (table, arrays) = ("", [String: Int]())
        var isInString = false
        for (index, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
            let trimmed = line.drop { $0 == " " || $0 == "\t" }
            let delimiters = Self.count("\"\"\"", in: trimmed) + Self.count("'''", in: trimmed)
            defer { if delimiters % 2 == 1 { isInString.toggle() } }
            guard !isInString else { continue }
            if trimmed.hasPrefix("[") {
                let isArray = trimmed.hasPrefix("[[")
                let name = Self.parts(trimmed.drop { $0 == "[" }.prefix { $0 != "]" })
                table = Self.path(name.dropLast(), arrays)
                if let last = name.last { table += (table.isEmpty ? "" : ".") + last }
                if isArray {
                    arrays[table, default: 0] += 1
                    table += "[\(arrays[table] ?? 1)]"
                }
                add(table, index + 1)
            } else if let equals = trimmed.firstIndex(of: "="), !trimmed.hasPrefix("#") {
                let key = Self.parts(trimmed[..<equals]).joined(separator: ".")
                add(table.isEmpty ? key : "\(table).\(key)", index + 1)
            }
        }
    }

    /// The line of a key, or of the innermost table around it that has one.
    package func line(of key: String) -> Int? {
        if let line = lines[key] { return line }
        guard let dot = key.lastIndex(of: ".") else { return nil }
        return line(of: String(key[..<dot]))
    }

    private mutating func add(_ key: String, _ line: Int) { if lines[key] == nil { lines[key] = line } }

    /// The path of a table, each array in it with the number of its last element.
    private static func path(_ name: some Sequence<String>, _ arrays: [String: Int]) -> String {
        var path = ""
        for part in name {
            path += (path.isEmpty ? "" : ".") + part
            if let number = arrays[path] { path += "[\(number)]" }
        }
        return path
    }

    /// The parts of a dotted name.
    private static func parts(_ name: some StringProtocol) -> [String] {
        name.split(separator: ".").map { part in
            String(part.filter { !$0.isWhitespace && $0 != "\"" && $0 != "'" })
        }
    }

    private static func count(_ delimiter: String, in line: Substring) -> Int {
        line.split(separator: delimiter, omittingEmptySubsequences: false).count - 1
    }
}
