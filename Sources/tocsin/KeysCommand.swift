// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import NodeConfiguration
import TocsinNode

struct KeysCommand: ParsableCommand {
    enum Format: String, CaseIterable, ExpressibleByArgument {
        case markdown, manual
    }

    static let configuration = CommandConfiguration(
        commandName: "keys", abstract: "Print every key of the configuration, with its default and its bounds.",
        discussion: """
            What is printed comes from the decoder itself: it is what this very program reads.

            EXAMPLES
              tocsin keys | less
              tocsin keys --format manual          as a piece of a manual page, man(7)
            """)

    @Option(help: "markdown, or manual.")
    var format = Format.markdown

    func run() {
        switch format {
        case .markdown: Terminal.print(ConfigurationReference.markdown)
        case .manual: Terminal.print(ConfigurationReference.manual)
        }
    }
}
