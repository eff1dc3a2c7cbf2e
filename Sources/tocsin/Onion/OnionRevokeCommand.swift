// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Tor

struct OnionRevokeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke", abstract: "Take a sender's authorisation back.",
        discussion: """
            The connections that the sender has stay until they end.

            EXAMPLES
              tocsin onion revoke alice
              tocsin onion revoke alice --open-to-all     alice was the last one: open the onion to everybody again
            """)

    @Argument(help: "The sender's name: tocsin onion list shows them.")
    var name: String

    @Flag(help: "Revoke also the last one, which opens the onion to everybody who knows its address.")
    var openToAll = false

    @OptionGroup var options: OnionOptions

    func run() async throws {
        let settings = try options.settings()
        try OnionOptions.attempt { () throws(OnionFileError) in
            try AuthorizedClients(serviceDirectory: settings.serviceDirectory)
                .revoke(ClientName(name), opensToAll: openToAll)
        }
        await OnionOptions.announce(settings)
    }
}
