// SPDX-License-Identifier: Apache-2.0

import Settings

/// The reference of all configuration keys, from which `Docs/configuration.md` and `tocsin.toml(5)` are generated.
package enum ConfigurationReference {
    /// The reference in Markdown: a section with a table of keys for each table of the file.
    package static func markdown(_ tables: [ConfigurationTable]) -> String {
        tables.map { table in
            var lines = [
                "## `[\(table.name)]`", "", table.help, "", "| key | value | default | |", "|---|---|---|---|",
            ]
            for key in table.keys {
                lines.append("| `\(key.name)` | \(value(key)) | \(standard(key)) | \(cell(key.help)) |")
            }
            return lines.joined(separator: "\n")
        }.joined(separator: "\n\n")
    }

    private static func value(_ key: ConfigurationKey) -> String {
        guard let range = key.range else { return cell(key.type) }
        return "\(range.lowerBound)–\(range.upperBound)"
    }

    private static func standard(_ key: ConfigurationKey) -> String {
        if key.isRequired { return "required" }
        return key.defaultValue.map { "`\($0)`" } ?? "–"
    }

    private static func cell(_ text: String) -> String { text.replacing("|", with: "\\|") }

    /// The reference as sections of a manual page (man(7)).
    package static func manual(_ tables: [ConfigurationTable]) -> String {
        tables.map { table in
            var lines = [".SS [\(roff(table.name))]", roff(table.help)]
            for key in table.keys {
                var facts = [key.range.map { "\($0.lowerBound) to \($0.upperBound)" } ?? key.type]
                if key.isRequired { facts.append("required") }
                if let standard = key.defaultValue { facts.append("default \(standard)") }
                lines += [".TP", ".B \(roff(key.name))", roff("\(key.help) (\(facts.joined(separator: "; "))).")]
            }
            return lines.joined(separator: "\n")
        }.joined(separator: "\n")
    }

    /// Escapes text for roff, so that backslashes and hyphens are literal and a leading dot or apostrophe starts no
    /// request. Code becomes bold.
    private static func roff(_ text: String) -> String {
        var output = ""
        var isCode = false
        for character in text {
            switch character {
            case "\\": output += "\\e"
            case "-": output += "\\-"
            case "'": output += "\\(aq"
            case "`":
                isCode.toggle()
                output += isCode ? "\\fB" : "\\fR"
            default: output.append(character)
            }
        }
        return output.hasPrefix(".") ? "\\&" + output : output
    }
}
