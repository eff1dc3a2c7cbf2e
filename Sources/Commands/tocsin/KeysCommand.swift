// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import NodeConfiguration
import Settings

struct KeysCommand: ParsableCommand {
    enum Format: String, CaseIterable, ExpressibleByArgument {
        case markdown, manual, json, schema
    }

    static let configuration = CommandConfiguration(
        commandName: "keys", abstract: "Print every configuration key with its default and bounds.",
        discussion: """
            The list is generated from the decoder: it describes the keys that this version reads.

            EXAMPLES
              tocsin keys | less
              tocsin keys spool                    one table; app shows those of an app, too
              tocsin keys --format json limits
              tocsin keys --format schema          JSON Schema for editors, such as Taplo and Even Better TOML
              tocsin keys --format manual          as part of a manual page, man(7)
            """)

    @Argument(help: "A table, such as spool. Default: all.")
    var table: String?

    @Option(help: "The output format: markdown, manual, json or schema.")
    var format = Format.markdown

    func validate() throws {
        guard table == nil || format != .schema else { throw ValidationError("a schema is of all tables") }
    }

    func run() throws {
        let tables = try tables()
        switch format {
        case .markdown: Terminal.print(ConfigurationReference.markdown(tables))
        case .manual: Terminal.print(ConfigurationReference.manual(tables))
        case .json: JSONOption.print(tables)
        case .schema: Terminal.print(ConfigurationReference.schema)
        }
    }

    /// The tables of that name, and those in them.
    /// - Throws: the exit code, after printing the error.
    private func tables() throws -> [ConfigurationTable] {
        let all = Configuration.reference
        guard let table else { return all }
        let wanted = table.filter { $0 != "[" && $0 != "]" }
        let found = all.filter { entry in
            let name = entry.name.filter { $0 != "[" && $0 != "]" }
            return name == wanted || name.hasPrefix("\(wanted).")
        }
        guard !found.isEmpty else {
            throw fail("there is no table \(wanted), only \(all.map(\.name).joined(separator: ", "))", .usage)
        }
        return found
    }
}
