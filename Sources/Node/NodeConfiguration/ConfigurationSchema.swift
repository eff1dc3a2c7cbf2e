// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials
import Settings

/// The reference of the configuration for editors.
extension ConfigurationReference {
    /// The JSON Schema (draft 7) of `tocsin.toml`, with which editors such as Taplo and Even Better TOML complete and
    /// check keys.
    package static var schema: String {
        let root = SchemaTable(name: "", isArray: false, help: "The configuration of a Tocsin node.")
        for table in Configuration.reference {
            var name = table.name
            let isArray = name.hasPrefix("[")
            if isArray { name = String(name.dropFirst().dropLast()) }
            root.add(name.split(separator: ".").map(String.init), isArray: isArray, table)
        }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        let document = SchemaDocument(table: root)
        return (try? encoder.encode(document)).map { String(decoding: $0, as: UTF8.self) } ?? "{}"
    }
}

private struct SchemaDocument: Encodable {
    let table: SchemaTable

    func encode(to encoder: any Encoder) throws {
        try table.encode(to: encoder)
        var container = encoder.container(keyedBy: SchemaKey.self)
        try container.encode("http://json-schema.org/draft-07/schema#", forKey: SchemaKey("$schema"))
        try container.encode("tocsin.toml", forKey: SchemaKey("title"))
    }
}

private struct SchemaKey: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }

    init(_ name: String) { stringValue = name }
    init?(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
}

/// A table of the configuration in a JSON Schema.
private final class SchemaTable: Encodable {
    private var isArray: Bool
    private var help: String
    private var keys: [ConfigurationKey] = []
    private var children: [(name: String, table: SchemaTable)] = []

    init(name: String, isArray: Bool, help: String) {
        self.isArray = isArray
        self.help = help
    }

    func add(_ path: [String], isArray: Bool, _ table: ConfigurationTable) {
        guard let name = path.first else { return }
        let child =
            children.first { $0.name == name }?.table ?? SchemaTable(name: name, isArray: false, help: "")
        if !children.contains(where: { $0.name == name }) { children.append((name, child)) }
        guard path.count == 1 else { return child.add(Array(path.dropFirst()), isArray: isArray, table) }
        child.isArray = isArray
        child.help = table.help
        child.keys = table.keys
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: SchemaKey.self)
        try container.encode(help, forKey: SchemaKey("description"))
        guard isArray else { return try encodeObject(to: &container) }
        try container.encode("array", forKey: SchemaKey("type"))
        var items = container.nestedContainer(keyedBy: SchemaKey.self, forKey: SchemaKey("items"))
        try encodeObject(to: &items)
    }

    private func encodeObject(to container: inout KeyedEncodingContainer<SchemaKey>) throws {
        try container.encode("object", forKey: SchemaKey("type"))
        try container.encode(false, forKey: SchemaKey("additionalProperties"))
        let required = keys.filter(\.isRequired).map(\.name)
        if !required.isEmpty { try container.encode(required, forKey: SchemaKey("required")) }
        var properties = container.nestedContainer(keyedBy: SchemaKey.self, forKey: SchemaKey("properties"))
        for key in keys { try properties.encode(SchemaProperty(key: key), forKey: SchemaKey(key.name)) }
        for (name, table) in children { try properties.encode(table, forKey: SchemaKey(name)) }
    }
}

/// A key of the configuration in a JSON Schema.
private struct SchemaProperty: Encodable {
    let key: ConfigurationKey

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: SchemaKey.self)
        try container.encode(
            key.help + (key.defaultValue.map { ". Default: \($0)" } ?? ""), forKey: SchemaKey("description"))
        switch key.type {
        case "whole number": try encodeNumber(to: &container)
        case "true or false": try container.encode("boolean", forKey: SchemaKey("type"))
        case "list of whole numbers":
            try container.encode("array", forKey: SchemaKey("type"))
            var items = container.nestedContainer(keyedBy: SchemaKey.self, forKey: SchemaKey("items"))
            try encodeNumber(to: &items)
        case let type where type.hasSuffix(", or a list"):
            try container.encode(["string", "array"], forKey: SchemaKey("type"))
            try container.encode(["type": "string"], forKey: SchemaKey("items"))
        case let type where type.hasPrefix("\""):
            let choices = type.split(separator: ", ").map { $0.filter { $0 != "\"" } }
            try container.encode(choices, forKey: SchemaKey("enum"))
        default: try container.encode("string", forKey: SchemaKey("type"))
        }
    }

    private func encodeNumber(to container: inout KeyedEncodingContainer<SchemaKey>) throws {
        try container.encode("integer", forKey: SchemaKey("type"))
        guard let range = key.range else { return }
        try container.encode(range.lowerBound, forKey: SchemaKey("minimum"))
        try container.encode(range.upperBound, forKey: SchemaKey("maximum"))
    }
}
