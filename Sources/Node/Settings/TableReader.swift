// SPDX-License-Identifier: Apache-2.0

import TOMLKit

/// Reads one table of the configuration key by key. Checks the type and range of each value, and finally that no unknown
/// key is left. Adds a description of each key it reads to the ``KeyCatalogue``.
package final class TableReader {
    private let table: TOMLTable?
    package let file: String
    /// Makes paths in the table absolute.
    package let paths: PathResolver
    /// The name of the table in error messages: `app[1].apns`.
    package let path: String
    private let catalogue: KeyCatalogue?
    private var known: Set<String> = []
    /// The tables in this one that were read, except those of arrays.
    private var children: [TableReader] = []

    package init(_ table: TOMLTable?, file: String, path: String, catalogue: KeyCatalogue? = nil) {
        self.table = table
        self.file = file
        paths = PathResolver(file: file)
        self.path = path
        self.catalogue = catalogue
    }

    /// Whether the file contains the table.
    package var exists: Bool { table != nil }

    package func name(of key: String) -> String { path.isEmpty ? key : "\(path).\(key)" }

    package func problem(_ key: String, _ text: String) -> ConfigurationError {
        ConfigurationError(file: file, key: name(of: key), problem: text)
    }

    /// The error for a missing key. If the table contains an unknown key with a similar name, the error is about that one.
    package func missing(_ key: String, _ text: String) -> ConfigurationError {
        let mistyped = (table?.keys ?? []).sorted().first { present in
            !known.contains(present) && Self.distance(present, key) <= max(2, key.utf8.count / 3)
        }
        guard let mistyped else { return problem(key, text) }
        return problem(mistyped, "unknown key; did you mean \(key)?")
    }

    private func value(_ key: String) -> (any TOMLValueConvertible)? {
        known.insert(key)
        guard let table, table.contains(key: key) else { return nil }
        return table[key]
    }

    /// Reads a value of one type; `nil` if the file does not set it.
    private func value<Value>(
        _ key: String, expected: String, _ convert: (any TOMLValueConvertible) -> Value?
    ) throws -> Value? {
        guard let value = value(key) else { return nil }
        guard let converted = convert(value) else { throw problem(key, "must be \(expected)") }
        return converted
    }

    /// The path without array indices: `app.apns` for `app[1].apns`.
    private var plainPath: String {
        path.split(separator: ".").map { $0.prefix { $0 != "[" } }.joined(separator: ".")
    }

    private func describe(
        _ key: String, _ type: String, standard: String? = nil, range: ClosedRange<Int>? = nil,
        isRequired: Bool = false, _ help: String
    ) {
        catalogue?.add(
            ConfigurationKey(
                table: plainPath, name: key, type: type, defaultValue: standard, range: range, isRequired: isRequired,
                help: help))
    }

    private func text(_ key: String, expected: String) throws -> String? {
        try value(key, expected: "\(expected), in quotes") { $0.string }
    }

    package func string(_ key: String, expected: String = "a string", _ help: String) throws -> String? {
        describe(key, expected, help)
        return try text(key, expected: expected)
    }

    package func string(
        _ key: String, expected: String = "a string", default standard: String, _ help: String
    ) throws -> String {
        describe(key, expected, standard: "\"\(standard)\"", help)
        return try text(key, expected: expected) ?? standard
    }

    package func requiredString(_ key: String, expected: String, _ help: String) throws -> String {
        describe(key, expected, isRequired: true, help)
        guard let text = try text(key, expected: expected), !text.isEmpty else {
            throw missing(key, "is missing: it must be \(expected)")
        }
        return text
    }

    /// Reads a string, or an array of strings; `nil` if the file sets neither.
    package func strings(_ key: String, expected: String, isRequired: Bool, _ help: String) throws -> [String]? {
        describe(key, "\(expected), or a list", isRequired: isRequired, help)
        return try value(key, expected: "\(expected), in quotes, or a list of these") { value in
            if let text = value.string { return [text] }
            guard let entries = value.array, !entries.isEmpty else { return nil }
            let texts = entries.compactMap(\.string)
            return texts.count == entries.count ? texts : nil
        }
    }

    /// Reads a list of ports, each of them once.
    package func ports(_ key: String, default standard: [UInt16], _ help: String) throws -> [UInt16] {
        describe(
            key, "list of whole numbers", standard: "\(standard.count == 1 ? standard : [7077, 80, 8021])",
            range: 1...65_535, help)
        let expected = "a list of different ports from 1 to 65535, like [7077, 80]"
        let ports = try value(key, expected: expected) { value -> [UInt16]? in
            guard let entries = value.array, !entries.isEmpty else { return nil }
            let ports = entries.compactMap { $0.int.flatMap { UInt16(exactly: $0) } }
            return ports.count == entries.count && Set(ports).count == ports.count && !ports.contains(0) ? ports : nil
        }
        return ports ?? standard
    }

    package func boolean(_ key: String, default standard: Bool, _ help: String) throws -> Bool {
        describe(key, "true or false", standard: "\(standard)", help)
        return try boolean(key) ?? standard
    }

    /// Reads a boolean without a default; `nil` if the file does not set it.
    package func flag(_ key: String, _ help: String) throws -> Bool? {
        describe(key, "true or false", help)
        return try boolean(key)
    }

    private func boolean(_ key: String) throws -> Bool? {
        try value(key, expected: "true or false, without quotes") { $0.bool }
    }

    package func integer(_ key: String, in range: ClosedRange<Int>, default standard: Int, _ help: String) throws -> Int
    {
        describe(key, "whole number", standard: "\(standard)", range: range, help)
        let expected = "a whole number from \(range.lowerBound) to \(range.upperBound)"
        guard let number = try value(key, expected: expected, { $0.int }) else { return standard }
        guard range.contains(number) else { throw problem(key, "is \(number), but must be \(expected)") }
        return number
    }

    /// Reads the URL of a push service.
    package func serviceURL(_ key: String, default standard: String, _ help: String) throws -> ServiceURL {
        guard let url = ServiceURL(try string(key, expected: "a URL", default: standard, help)) else {
            throw problem(key, "must be an https URL like \"\(standard)\"")
        }
        return url
    }

    /// Reads how many connections there may be, from `connections` to `max_connections`.
    package func connections() throws -> ClosedRange<Int> {
        let minimum = try integer(
            "connections", in: 1...100, default: 1,
            "Connections per app (for APNs, also per environment), opened when there is work")
        let maximum = try integer(
            "max_connections", in: minimum...100, default: max(minimum, 8),
            "Maximum number of these connections: the node opens more when all streams are in use")
        return minimum...maximum
    }

    /// Reads the name of a file, as an absolute path; `nil` if the file does not set it.
    package func file(_ key: String, _ help: String) throws -> String? {
        try string(key, expected: "a file", help).map(paths.absolute)
    }

    package func choice<Choice: RawRepresentable & CaseIterable>(
        _ key: String, default standard: Choice, _ help: String
    ) throws -> Choice where Choice.RawValue == String {
        let choices = Choice.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
        describe(key, choices, standard: "\"\(standard.rawValue)\"", help)
        guard let text = try text(key, expected: "one of \(choices)") else { return standard }
        guard let choice = Choice(rawValue: text) else { throw problem(key, "must be one of \(choices)") }
        return choice
    }

    package func table(_ key: String, _ help: String) throws -> TableReader {
        let (path, value) = (name(of: key), value(key))
        let reader = TableReader(value?.table, file: file, path: path, catalogue: catalogue)
        catalogue?.add(ConfigurationTable(name: reader.plainPath, help: help))
        guard value == nil || reader.exists else { throw problem(key, "must be a table: [\(path)]") }
        children.append(reader)
        return reader
    }

    package func tables(_ key: String, _ help: String) throws -> [TableReader] {
        catalogue?.add(ConfigurationTable(name: "[\(name(of: key))]", help: help))
        guard let value = value(key) else { return [] }
        guard let array = value.array else { throw problem(key, "must be written as [[\(name(of: key))]]") }
        return try array.enumerated().map { index, entry in
            guard let table = entry.table else { throw problem(key, "must be written as [[\(name(of: key))]]") }
            return TableReader(table, file: file, path: "\(name(of: key))[\(index + 1)]", catalogue: catalogue)
        }
    }

    /// Checks that the table and its children contain no unknown key.
    package func finish() throws {
        guard let table else { return }
        for key in table.keys.sorted() where !known.contains(key) {
            let nearest = known.sorted().min { Self.distance(key, $0) < Self.distance(key, $1) }
            let near = nearest.flatMap { Self.distance(key, $0) <= max(2, key.utf8.count / 3) ? $0 : nil }
            let hint = near.map { "; did you mean \($0)?" } ?? "; known keys: \(known.sorted().joined(separator: ", "))"
            throw problem(key, "unknown key\(hint)")
        }
        for child in children { try child.finish() }
    }

    /// The Levenshtein distance of two strings.
    private static func distance(_ one: String, _ other: String) -> Int {
        // Bounds the time for very long keys; no known key is that long.
        let (one, other) = (Array(one.utf8.prefix(64)), Array(other.utf8))
        var row = Array(0...other.count)
        for (index, letter) in one.enumerated() {
            var diagonal = row[0]
            row[0] = index + 1
            for column in other.indices {
                let changed = diagonal + (letter == other[column] ? 0 : 1)
                diagonal = row[column + 1]
                row[column + 1] = min(changed, row[column] + 1, diagonal + 1)
            }
        }
        return row[other.count]
    }
}
