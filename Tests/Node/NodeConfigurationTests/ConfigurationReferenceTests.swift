// SPDX-License-Identifier: Apache-2.0

import Foundation
import Settings
import TestSupport
import Testing

@testable import NodeConfiguration
@testable import TocsinNode

@Suite(.tags(.computing)) struct ConfigurationReferenceTests {
    @Test func `the reference in Docs matches the decoder`() throws {
        let file = Repository.file("Docs/configuration.md")
        let text = try String(contentsOf: file, encoding: .utf8)
        let marker = try #require(text.range(of: "<!-- keys:"))
        let rest = text[marker.lowerBound...].drop { $0 != "\n" }
        #expect(
            rest.trimmingCharacters(in: .newlines) == ConfigurationReference.markdown(Configuration.reference),
            "run: make docs")
    }

    @Test func `each key occurs once in a table and has a help text`() {
        let tables = Configuration.reference
        #expect(Set(tables.map(\.name)).count == tables.count)
        #expect(tables.map(\.name).contains("app.apns") && tables.map(\.name).contains("[app]"))
        for table in tables {
            #expect(!table.help.isEmpty && !table.keys.isEmpty, "\(table.name)")
            #expect(Set(table.keys.map(\.name)).count == table.keys.count)
            for key in table.keys { #expect(!key.help.isEmpty, "\(table.name).\(key.name)") }
        }
    }

    @Test func `the decoder accepts each default and rejects values out of range`() throws {
        let app = "[[app]]\nname = \"x\"\n[app.fcm]\nservice_account_file = \"x\"\n"
        for table in Configuration.reference where !table.name.contains("app") && !table.name.hasPrefix("[") {
            for key in table.keys {
                if let value = key.defaultValue {
                    let text = "\(app)[\(table.name)]\n\(key.name) = \(value)"
                    #expect(throws: Never.self, "\(key.name)") {
                        try Configuration(text: text, file: "/etc/tocsin/tocsin.toml")
                    }
                }
                guard let range = key.range else { continue }
                for wrong in [range.lowerBound - 1, range.upperBound + 1] {
                    #expect(throws: ConfigurationError.self, "\(table.name).\(key.name) = \(wrong)") {
                        try Configuration(
                            text: "\(app)[\(table.name)]\n\(key.name) = \(wrong)", file: "/etc/tocsin/tocsin.toml")
                    }
                }
            }
        }
    }

    @Test func `the manual lists each table and key and contains no stray troff request`() {
        let lines = ConfigurationReference.manual(Configuration.reference).split(separator: "\n")
        #expect(lines.count { $0.hasPrefix(".SS ") } == Configuration.reference.count)
        #expect(lines.count { $0 == ".TP" } == Configuration.reference.map(\.keys.count).reduce(0, +))
        for line in lines {
            #expect(!line.hasPrefix("'"))
            #expect(!line.hasPrefix(".") || [".SS ", ".TP", ".B "].contains { line.hasPrefix($0) })
        }
    }
}
