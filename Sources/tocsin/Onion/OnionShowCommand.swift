// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import QRCode
import Tor

struct OnionShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Show the onion's address, where its keys lie, and whether it can be reached.",
        discussion: """
            The address goes to standard output by itself, so that a script can take it; all else to standard error.

            EXAMPLES
              tocsin onion show
              tocsin onion show --config /etc/tocsin/tocsin.toml
              address=$(tocsin onion show 2>/dev/null)
            """)

    @OptionGroup var options: OnionOptions

    func run() async throws {
        let settings = try options.settings()
        let address = try OnionOptions.keys(settings).address
        Terminal.print("\(address)")
        if Terminal.isErrorATerminal, let code = try? QRCode("\(address)") {
            for line in code.terminalLines(isColoured: true) { Terminal.error(line) }
        }
        Terminal.error("keys        \(settings.serviceDirectory) (who has a copy is this onion; keep one offline)")
        let clients = try OnionOptions.attempt { () throws(OnionFileError) in
            try AuthorizedClients(serviceDirectory: settings.serviceDirectory).list()
        }
        let count = clients.count { $0.isValid }
        Terminal.error(
            "open to     " + (count == 0 ? "everybody who knows the address" : "\(count) authorised: tocsin onion list")
        )
        if settings.isManaged { await showState(settings) }
    }

    private func showState(_ settings: TorSettings) async {
        guard let tor = await RunningTor(settings, on: EventLoop(name: "onion")) else {
            Terminal.error("tor         does not run, or does not let this user in: tocsin run starts it")
            return
        }
        Terminal.error("tor         runs (pid \(tor.pid)), \(tor.bootstrap) % of its way into the network")
        let state =
            switch tor.descriptor {
            case .published?: "published: senders find the onion"
            case .uploading?: "being published"
            case .failed?: "not taken by any directory: see the node's log"
            case OnionDescriptor.none?: "not published yet"
            case nil: "not known"
            }
        Terminal.error("descriptor  \(state)")
    }
}
