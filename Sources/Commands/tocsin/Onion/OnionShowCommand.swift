// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
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
              tocsin onion show --json
              address=$(tocsin onion show 2>/dev/null)
            """)

    @OptionGroup var output: JSONOption
    @OptionGroup var options: OnionOptions

    private struct Shown: Encodable {
        let address: String
        let keys: String
        let open: Bool
        let authorizedSenders: Int
        let managed: Bool
        let torPid: Int32?
        let bootstrapPercent: Int?
        let descriptor: String?
    }

    func run() async throws {
        let settings = try options.settings()
        let address = try OnionOptions.address(settings)
        if output.json { return try await showJSON(settings, address) }
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

    private func showJSON(_ settings: TorSettings, _ address: OnionAddress) async throws {
        let clients = try OnionOptions.attempt { () throws(OnionFileError) in
            try AuthorizedClients(serviceDirectory: settings.serviceDirectory).list()
        }
        let tor = settings.isManaged ? await RunningTor(settings, on: EventLoop(name: "onion")) : nil
        JSONOption.print(
            Shown(
                address: "\(address)", keys: settings.serviceDirectory, open: !clients.contains(where: \.isValid),
                authorizedSenders: clients.count { $0.isValid && $0.name != .nobody }, managed: settings.isManaged,
                torPid: tor?.pid, bootstrapPercent: tor?.bootstrap, descriptor: tor?.descriptor.map { "\($0)" }))
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
