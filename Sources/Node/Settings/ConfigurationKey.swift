// SPDX-License-Identifier: Apache-2.0

/// The description of one configuration key. The decoder creates it when it reads the key, so the generated reference
/// (Docs/configuration.md) always matches the decoder.
package struct ConfigurationKey: Sendable, Equatable {
    /// The table that contains the key, e.g. `limits` or `app.apns`.
    package let table: String
    /// The name of the key without its table.
    package let name: String
    /// The type of the value, e.g. `whole number` or `"text", "json"`.
    package let type: String
    /// The default in TOML syntax; `nil` if there is none.
    package let defaultValue: String?
    /// The smallest and the largest value of a number.
    package let range: ClosedRange<Int>?
    /// Whether the file must set the key.
    package let isRequired: Bool
    /// The meaning of the key, with its unit, in Markdown.
    package let help: String
}

extension ConfigurationKey: Encodable {
    private enum Field: String, CodingKey {
        case name, type, standard = "default", minimum, maximum, isRequired = "required", help
    }

    package func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: Field.self)
        try fields.encode(name, forKey: .name)
        try fields.encode(type, forKey: .type)
        try fields.encodeIfPresent(defaultValue, forKey: .standard)
        try fields.encodeIfPresent(range?.lowerBound, forKey: .minimum)
        try fields.encodeIfPresent(range?.upperBound, forKey: .maximum)
        try fields.encode(isRequired, forKey: .isRequired)
        try fields.encode(help, forKey: .help)
    }
}

/// The description of one configuration table.
package struct ConfigurationTable: Sendable, Equatable, Encodable {
    /// The name, e.g. `limits`, or `[app]` for an array of tables.
    package let name: String
    /// The purpose of the table, in Markdown.
    package let help: String
    /// The keys of the table, in the order in which the decoder reads them.
    package fileprivate(set) var keys: [ConfigurationKey] = []
}

/// Collects the tables and keys that the decoder reads.
package final class KeyCatalogue {
    package private(set) var tables: [ConfigurationTable] = []

    package init() {}

    package func add(_ table: ConfigurationTable) {
        if !tables.contains(where: { $0.name == table.name }) { tables.append(table) }
    }

    package func add(_ key: ConfigurationKey) {
        guard let index = tables.firstIndex(where: { $0.name == key.table || $0.name == "[\(key.table)]" }),
            !tables[index].keys.contains(where: { $0.name == key.name })
        else { return }
        tables[index].keys.append(key)
    }
}
