// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Tor

struct OnionListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the authorised senders, one per line.",
        discussion: """
            EXAMPLES
              tocsin onion list
            """)

    @OptionGroup var options: OnionOptions

    func run() async throws {
        let settings = try options.settings()
        let clients = AuthorizedClients(serviceDirectory: settings.serviceDirectory)
        let entries = try OnionOptions.attempt { () throws(OnionFileError) in try clients.list() }
        for entry in entries where entry.name != .nobody {
            Terminal.print("\(entry.name)")
            if !entry.isValid {
                Terminal.error(
                    """
                    \(entry.name) cannot connect: tor cannot read \(clients.directory)/\(entry.name).auth. Revoke and \
                    authorize this sender again
                    """)
            }
        }
        let name = options.onion.map { " --name \($0)" } ?? ""
        if entries.allSatisfy({ $0.name == .nobody }), !entries.isEmpty {
            Terminal.error(
                "no sender is authorised: the onion is closed to everyone. Run tocsin onion authorize SENDER\(name)")
        }
        guard !entries.contains(where: \.isValid) else { return }
        Terminal.error("no sender is authorised: the onion is open to everyone who knows its address")
    }
}
