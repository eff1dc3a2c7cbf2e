// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import FoundationEssentials

/// The `--json` option of the commands that print something for people to read.
struct JSONOption: ParsableArguments {
    @Flag(help: "Print JSON to standard output, for scripts: Docs/json.md.")
    var json = false

    /// Prints a value as one line.
    static func print(_ value: some Encodable) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.keyEncodingStrategy = .convertToSnakeCase
        guard let bytes = try? encoder.encode(value) else { return }
        Terminal.print(String(decoding: bytes, as: UTF8.self))
    }
}
