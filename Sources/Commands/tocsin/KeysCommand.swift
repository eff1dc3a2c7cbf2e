// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import NodeConfiguration
import Settings

struct KeysCommand: ParsableCommand {
    enum Format: String, CaseIterable, ExpressibleByArgument {
        case markdown, manual
    }

    static let configuration = CommandConfiguration(
        commandName: "keys", abstract: "Print every configuration key with its default and bounds.",
        discussion: """
            The list is generated from the decoder: it describes the keys that this version reads.

            EXAMPLES
              tocsin keys | less
              tocsin keys --format manual          as part of a manual page, man(7)
            """)

    @Option(help: "The output format: markdown or manual.")
    var format = Format.markdown

    func run() {
        switch format {
        case .markdown: Terminal.print(ConfigurationReference.markdown)
        case .manual: Terminal.print(ConfigurationReference.manual)
        }
    }
}
