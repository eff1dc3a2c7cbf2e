// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import TocsinNode
import Tor

struct OnionRelayCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "relay", abstract: "Let the node see the state of the tor that tocsin-tor.service runs.",
        discussion: """
            tocsin-tor-control.service runs this as tor's user. Whoever has tor's control port can get the onion's key, so \
            the node connects to this relay, which passes on the few commands that show tor's state.

            EXAMPLES
              tocsin onion relay
              tocsin onion relay --directory /var/lib/tocsin-tor
            """)

    @Option(help: "tor's data directory: tor.directory.", completion: .directory)
    var directory = TorSettings.systemDirectory

    func run() async throws {
        let manager = ServiceManager.ofThisProcess()
        var settings = TorSettings(isManaged: true, directory: directory)
        settings.runner = .service
        let loop = EventLoop(name: "relay")
        let stop = StopSignal(on: loop)
        await stop.arm()
        let relay = ControlRelay(settings, on: loop)
        do {
            try await relay.listen()
        } catch {
            throw fail("\(error)", .failure)
        }
        manager?.tell(.ready)
        await stop.wait()
        await relay.close()
    }
}
