// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import TocsinNode

@main
struct Tocsin: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tocsin",
        abstract: "Rings phones for desktop apps that send through Tor, without being able to read a word.",
        discussion: """
            EXAMPLES
              tocsin init                          writes a configuration, asking for what is needed
              tocsin check --online                looks whether all that a node needs is right
              tocsin demo                          everything on this machine, no account and no internet needed
              tocsin run --config tocsin.toml      the node
              tocsin send - --node ADDRESS.onion:7077 --type TRADE --title Paid --message "Trade 123 is paid" < pairing
            """,
        version: Version.current,
        subcommands: [
            InitCommand.self, CheckCommand.self, RunCommand.self, OnionCommand.self, KeysCommand.self, SendCommand.self,
            PairCommand.self, UnbindCommand.self,
            SimulateCommand.self, DemoCommand.self,
        ])
}
