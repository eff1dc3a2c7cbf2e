// SPDX-License-Identifier: Apache-2.0

/// One key of the configuration, as the decoder itself knows it: the reference of all keys is made of these, so that it
/// cannot say anything else than what is read.
package struct ConfigurationKey: Sendable, Equatable {
    /// The table that it stands in, e.g. `limits` or `app.apns`.
    package let table: String
    package let name: String
    /// What its values are, e.g. `whole number` or `"text" or "json"`.
    package let type: String
    /// As it stands in the file; nil: there is none.
    package let standard: String?
    /// The least and the largest value.
    package let range: ClosedRange<Int>?
    package let isRequired: Bool
    /// What it does, with its unit; Markdown.
    package let help: String
}

/// One table of the configuration.
package struct ConfigurationTable: Sendable, Equatable {
    /// E.g. `limits`, or `[app]` for one that may come several times.
    package let name: String
    /// What it is about; Markdown.
    package let help: String
    package internal(set) var keys: [ConfigurationKey] = []
}

/// Collects the keys that a decoder asks for.
final class KeyCatalogue {
    private(set) var tables: [ConfigurationTable] = []

    func add(_ table: ConfigurationTable) {
        if !tables.contains(where: { $0.name == table.name }) { tables.append(table) }
    }

    func add(_ key: ConfigurationKey) {
        guard let index = tables.firstIndex(where: { $0.name == key.table || $0.name == "[\(key.table)]" }),
            !tables[index].keys.contains(where: { $0.name == key.name })
        else { return }
        tables[index].keys.append(key)
    }
}
