// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Tor

struct OnionRevokeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke", abstract: "Withdraw a sender's authorisation.",
        discussion: """
            The sender's open connections stay open.

            EXAMPLES
              tocsin onion revoke alice
              tocsin onion revoke alice --open-to-all     alice is the last one: open the onion to everyone
            """)

    @Argument(help: "The sender's name, as listed by tocsin onion list.")
    var name: String

    @Flag(help: "Allow revoking the last sender, which opens the onion to everyone who knows its address.")
    var openToAll = false

    @OptionGroup var options: OnionOptions

    func run() async throws {
        let settings = try options.settings(toChange: true)
        try OnionOptions.attempt { () throws(OnionFileError) in
            try AuthorizedClients(serviceDirectory: settings.serviceDirectory)
                .revoke(ClientName(name), opensToAll: openToAll)
        }
        await OnionOptions.applyChanges(settings)
    }
}
