// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

struct OnionCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "onion", abstract: "The node's onion: its address, its keys, and who may reach it.",
        discussion: """
            EXAMPLES
              tocsin onion                              the address and its QR code
              tocsin onion authorize alice              a key, and nobody without
              tocsin onion revoke alice
              tocsin onion import /var/lib/tor/tocsin   another tor's address
            """,
        subcommands: [
            OnionShowCommand.self, OnionAuthorizeCommand.self, OnionRevokeCommand.self, OnionListCommand.self,
            OnionImportCommand.self,
        ], defaultSubcommand: OnionShowCommand.self)
}
