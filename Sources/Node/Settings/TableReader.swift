// SPDX-License-Identifier: Apache-2.0

import TOMLKit

/// Reads one table of the configuration key by key. Checks the type and range of each value, and finally that no unknown
/// key is left. Notes what is wrong and goes on with the default where there is one, so that the operator sees all errors at
/// once. Adds a description of each key it reads to the ``KeyCatalogue``.
package final class TableReader {
    /// What all tables of a configuration share.
    private final class Shared {
        let file: String
        let lines: KeyLines
        let catalogue: KeyCatalogue?
        let environment: EnvironmentKeys
        var errors: [ConfigurationError] = []

        init(file: String, lines: KeyLines, catalogue: KeyCatalogue?, environment: EnvironmentKeys) {
            self.file = file
            self.lines = lines
            self.catalogue = catalogue
            self.environment = environment
        }
    }

    private let table: TOMLTable?
    private let shared: Shared
    /// Makes paths in the table absolute.
    package let paths: PathResolver
    /// The name of the table in error messages: `app[1].apns`.
    package let path: String
    /// The app, site or onion that the table describes; `nil` if it describes none.
    private let owner: String?
    private weak var parent: TableReader?
    private var known: Set<String> = []
    /// The tables in this one that were read, except those of arrays.
    private var children: [TableReader] = []
    /// Whether keys may be left unread, because of an error.
    package private(set) var isIncomplete = false

    /// Reads a whole configuration.
    /// - Parameters:
    ///   - text: the text of the file.
    ///   - environment: values in place of those in the file.
    /// - Throws: `TOMLParseError`.
    package init(
        text: String, file: String, catalogue: KeyCatalogue?, environment: EnvironmentKeys = EnvironmentKeys()
    ) throws {
        table = try TOMLTable(string: text)
        shared = Shared(file: file, lines: KeyLines(text), catalogue: catalogue, environment: environment)
        paths = PathResolver(file: file)
        path = ""
        owner = nil
    }

    private init(_ table: TOMLTable?, path: String, in parent: TableReader) {
        self.table = table
        shared = parent.shared
        paths = parent.paths
        self.path = path
        self.parent = parent
        owner = parent.owner ?? (path.hasSuffix("]") ? table?["name"]?.string : nil)
    }

    /// All errors that were noted; `nil` if there are none.
    package var error: ConfigurationError? { ConfigurationError(shared.errors) }
    private var catalogue: KeyCatalogue? { shared.catalogue }

    /// Whether the file contains the table.
    package var exists: Bool { table != nil }

    package func name(of key: String) -> String { path.isEmpty ? key : "\(path).\(key)" }

    /// Notes an error after which reading goes on.
    /// - Parameter key: `nil` if the error concerns the whole file.
    package func note(_ key: String?, _ text: String) { shared.errors.append(error(key, text)) }

    /// Reads a part of the configuration. Notes the error, if there is one, so that the other parts are read as well.
    /// - Returns: `nil` after an error.
    package func attempt<Part>(_ read: () throws -> Part) -> Part? {
        do {
            return try read()
        } catch {
            shared.errors.append(
                error as? ConfigurationError ?? ConfigurationError(file: shared.file, problem: "\(error)"))
            return nil
        }
    }

    /// The error to throw where reading cannot go on.
    package func problem(_ key: String, _ text: String) -> ConfigurationError {
        becomeIncomplete()
        return error(key, text)
    }

    private func becomeIncomplete() {
        guard !path.isEmpty else { return }
        isIncomplete = true
        parent?.becomeIncomplete()
    }

    private func error(_ key: String?, _ text: String) -> ConfigurationError {
        if let key, let variable = fromEnvironment(key)?.variable {
            return ConfigurationError(file: "the environment", key: variable, owner: owner, problem: text)
        }
        let key = key.map(name)
        return ConfigurationError(
            file: shared.file, line: key.flatMap(shared.lines.line), key: key, owner: owner, problem: text)
    }

    /// The error to throw for a missing key. If the table contains an unknown key with a similar name, the error names
    /// that key.
    package func missing(_ key: String, _ text: String) -> ConfigurationError {
        let mistyped = (table?.keys ?? []).sorted().first { present in
            !known.contains(present) && Self.distance(present, key) <= max(2, key.utf8.count / 3)
        }
        guard let mistyped else {
            let name = "\(plainPath).\(key)"
            let variable = EnvironmentKeys.all.contains(name) ? "; or set \(EnvironmentKeys.variable(of: name))" : ""
            return problem(key, text + variable)
        }
        return problem(mistyped, "unknown key; did you mean \(key)?")
    }

    private func value(_ key: String) -> (any TOMLValueConvertible)? {
        known.insert(key)
        if let value = fromEnvironment(key)?.value { return value }
        guard let table, table.contains(key: key) else { return nil }
        return table[key]
    }

    /// The value that an environment variable gives to a key of this table.
    private func fromEnvironment(_ key: String) -> (variable: String, value: String)? {
        shared.environment["\(plainPath).\(key)"]
    }

    /// Reads a value of one type; `nil` if the file does not set it, or after an error.
    private func value<Value>(
        _ key: String, expected: String, _ convert: (any TOMLValueConvertible) -> Value?
    ) -> Value? {
        guard let value = value(key) else { return nil }
        let converted = convert(value)
        if converted == nil { note(key, "must be \(expected)") }
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

    private func text(_ key: String, expected: String) -> String? {
        value(key, expected: "\(expected), in quotes") { $0.string }
    }

    package func string(_ key: String, expected: String = "a string", _ help: String) -> String? {
        describe(key, expected, help)
        return text(key, expected: expected)
    }

    package func string(
        _ key: String, expected: String = "a string", default standard: String, _ help: String
    ) -> String {
        describe(key, expected, standard: "\"\(standard)\"", help)
        return text(key, expected: expected) ?? standard
    }

    package func requiredString(_ key: String, expected: String, _ help: String) throws -> String {
        describe(key, expected, isRequired: true, help)
        guard let value = value(key) else { throw missing(key, "is missing: it must be \(expected)") }
        guard let text = value.string else { throw problem(key, "must be \(expected), in quotes") }
        guard !text.isEmpty else { throw missing(key, "is missing: it must be \(expected)") }
        return text
    }

    /// Reads a string, or an array of strings; `nil` if the file does not set the key.
    package func strings(_ key: String, expected: String, isRequired: Bool, _ help: String) throws -> [String]? {
        describe(key, "\(expected), or a list", isRequired: isRequired, help)
        guard let value = value(key) else { return nil }
        if let text = value.string { return [text] }
        guard let entries = value.array, !entries.isEmpty, entries.allSatisfy({ $0.string != nil }) else {
            throw problem(key, "must be \(expected), in quotes, or a list of these")
        }
        return entries.compactMap(\.string)
    }

    /// Reads a list of different ports.
    package func ports(_ key: String, default standard: [UInt16], _ help: String) -> [UInt16] {
        describe(
            key, "list of whole numbers", standard: "\(standard.count == 1 ? standard : [7077, 80, 8021])",
            range: 1...65_535, help)
        let expected = "a list of different ports from 1 to 65535, like [7077, 80]"
        let ports = value(key, expected: expected) { value -> [UInt16]? in
            guard let entries = value.array, !entries.isEmpty else { return nil }
            let ports = entries.compactMap { $0.int.flatMap { UInt16(exactly: $0) } }
            return ports.count == entries.count && Set(ports).count == ports.count && !ports.contains(0) ? ports : nil
        }
        return ports ?? standard
    }

    package func boolean(_ key: String, default standard: Bool, _ help: String) -> Bool {
        describe(key, "true or false", standard: "\(standard)", help)
        return boolean(key) ?? standard
    }

    /// Reads a boolean without a default; `nil` if the file does not set it.
    package func flag(_ key: String, _ help: String) -> Bool? {
        describe(key, "true or false", help)
        return boolean(key)
    }

    private func boolean(_ key: String) -> Bool? {
        value(key, expected: "true or false, without quotes") { $0.bool }
    }

    package func integer(_ key: String, in range: ClosedRange<Int>, default standard: Int, _ help: String) -> Int {
        describe(key, "whole number", standard: "\(standard)", range: range, help)
        let expected = "a whole number from \(range.lowerBound) to \(range.upperBound)"
        guard let number = value(key, expected: expected, { $0.int }) else { return standard }
        guard range.contains(number) else {
            note(key, "is \(number), but must be \(expected)")
            return standard
        }
        return number
    }

    /// Reads the URL of a push service.
    package func serviceURL(_ key: String, default host: String, _ help: String) -> ServiceURL {
        let standard = "https://\(host)"
        let url = ServiceURL(string(key, expected: "a URL", default: standard, help))
        if url == nil { note(key, "must be an https URL like \"\(standard)\"") }
        return url ?? ServiceURL(host: host)
    }

    /// Reads how many connections there may be, from `connections` to `max_connections`.
    package func connections() -> ClosedRange<Int> {
        let minimum = integer(
            "connections", in: 1...100, default: 1,
            "Connections per app (for APNs, also per environment), opened when there is work")
        let maximum = integer(
            "max_connections", in: minimum...100, default: max(minimum, 8),
            "Maximum number of these connections: the node opens more when all streams are in use")
        return minimum...maximum
    }

    /// Reads the name of a file, as an absolute path; `nil` if the file does not set it.
    package func file(_ key: String, _ help: String) -> String? {
        string(key, expected: "a file", help).map(paths.absolute)
    }

    package func choice<Choice: RawRepresentable & CaseIterable>(
        _ key: String, default standard: Choice, _ help: String
    ) -> Choice where Choice.RawValue == String {
        let choices = Choice.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
        describe(key, choices, standard: "\"\(standard.rawValue)\"", help)
        guard let text = text(key, expected: "one of \(choices)") else { return standard }
        let choice = Choice(rawValue: text)
        if choice == nil { note(key, "must be one of \(choices)") }
        return choice ?? standard
    }

    package func table(_ key: String, _ help: String) -> TableReader {
        let (path, value) = (name(of: key), value(key))
        let reader = TableReader(value?.table, path: path, in: self)
        catalogue?.add(ConfigurationTable(name: reader.plainPath, help: help))
        if value != nil, !reader.exists {
            note(key, "must be a table: [\(path)]")
            becomeIncomplete()
        }
        children.append(reader)
        return reader
    }

    package func tables(_ key: String, _ help: String) -> [TableReader] {
        catalogue?.add(ConfigurationTable(name: "[\(name(of: key))]", help: help))
        guard let value = value(key) else { return [] }
        let entries = value.array?.map(\.table) ?? [nil]
        if entries.contains(where: { $0 == nil }) { note(key, "must be written as [[\(name(of: key))]]") }
        return entries.enumerated().compactMap { index, table in
            table.map { TableReader($0, path: "\(name(of: key))[\(index + 1)]", in: self) }
        }
    }

    /// Notes each unknown key of the table and of its children, except of those that could not be read to their end.
    package func finish() {
        for child in children { child.finish() }
        guard let table, !isIncomplete else { return }
        for key in table.keys.sorted() where !known.contains(key) {
            let nearest = known.sorted().min { Self.distance(key, $0) < Self.distance(key, $1) }
            let near = nearest.flatMap { Self.distance(key, $0) <= max(2, key.utf8.count / 3) ? $0 : nil }
            let hint = near.map { "; did you mean \($0)?" } ?? "; known keys: \(known.sorted().joined(separator: ", "))"
            note(key, "unknown key\(hint)")
        }
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
