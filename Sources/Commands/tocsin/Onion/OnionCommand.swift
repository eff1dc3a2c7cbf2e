// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

struct OnionCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "onion", abstract: "Show the node's onion, import its keys, and manage authorised senders.",
        discussion: """
            EXAMPLES
              tocsin onion                              show the address and its QR code
              tocsin onion authorize alice              create a key; close the onion to all others
              tocsin onion revoke alice                 withdraw the authorisation
              tocsin onion import /var/lib/tor/tocsin   take over the address of another tor
            """,
        subcommands: [
            OnionShowCommand.self, OnionAuthorizeCommand.self, OnionRevokeCommand.self, OnionListCommand.self,
            OnionImportCommand.self, OnionPrepareCommand.self, OnionRelayCommand.self,
        ], defaultSubcommand: OnionShowCommand.self)
}
