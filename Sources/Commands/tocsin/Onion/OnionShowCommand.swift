// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import QRCode
import Tor

struct OnionShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Show the onion's address, key directory and state.",
        discussion: """
            Only the address goes to standard output, for use in scripts; everything else goes to standard error.

            EXAMPLES
              tocsin onion show
              tocsin onion show --config /etc/tocsin/tocsin.toml
              tocsin onion show --name new
              address=$(tocsin onion show 2>/dev/null)
            """)

    @OptionGroup var options: OnionOptions

    func run() async throws {
        let settings = try options.settings()
        let address = try OnionOptions.address(settings)
        Terminal.print("\(address)")
        if Terminal.isErrorATerminal, let code = try? QRCode("\(address)") {
            for line in code.terminalLines(isColoured: true) { Terminal.error(line) }
        }
        Terminal.error("keys        \(settings.serviceDirectory) (anyone with a copy is this onion; keep one offline)")
        let clients = try OnionOptions.attempt { () throws(OnionFileError) in
            try AuthorizedClients(serviceDirectory: settings.serviceDirectory).list()
        }
        let count = clients.count { $0.isValid && $0.name != .nobody }
        let access =
            clients.contains(where: \.isValid)
            ? "\(count) authorised senders: tocsin onion list\(options.onion.map { " --name \($0)" } ?? "")"
            : "everyone who knows the address"
        Terminal.error("open to     \(access)")
        if settings.isManaged { await showState(settings) }
    }

    private func showState(_ settings: TorSettings) async {
        guard let tor = await RunningTor(settings, on: EventLoop(name: "onion")) else {
            Terminal.error("tor         not running, or does not accept this user: it starts with the node")
            return
        }
        Terminal.error("tor         running (pid \(tor.pid)), bootstrapped \(tor.bootstrap) %")
        let state =
            switch tor.descriptor {
            case .published?: "published: senders can find the onion"
            case .uploading?: "being published"
            case .failed?: "rejected by all directories: see the node's log"
            case OnionDescriptor.none?: "not published yet"
            case nil: "unknown"
            }
        Terminal.error("descriptor  \(state)")
    }
}
