// SPDX-License-Identifier: Apache-2.0

import Admission
import ArgumentParser
import Console
import Delivery
import EventLoop
import NodeConfiguration
import QRCode
import TocsinNode
import Tor

struct RunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Run the node.",
        discussion: """
            Listens for senders, behind tor, which it runs itself where it is installed and no other is named, until SIGTERM or SIGINT; then takes no new work, answers what it has taken
            and ends. SIGHUP has it read its configuration and credentials anew, without dropping a connection; a
            credential file that changes is read anew within seconds by itself.

            EXAMPLES
              tocsin run
              tocsin run --config /etc/tocsin/tocsin.toml
              kill -HUP PID                                 after a change of the configuration
            """)

    @OptionGroup var options: ConfigurationOption

    func run() async throws {
        let manager = ServiceManager.ofThisProcess()
        if !ProcessHardening.forbidCoreDumps() {
            Terminal.error("tocsin: core dumps could not be switched off; one would hold keys")
        }
        let configuration = try options.load()
        let loop = EventLoop(name: "node")
        let node = Node(configuration, logger: configuration.makeLogger(), on: loop) { Self.show($0) }
        let stop = StopSignal(on: loop)
        await stop.arm {
            Task {
                // Before it serves there is nothing to read anew, and it is not ready.
                guard await node.isServing else { return }
                manager?.tell(.reloading(since: .now))
                await node.reload()
                manager?.tell(.ready)
            }
        }
        let starting = Task { await manager?.keepStarting() }
        defer { starting.cancel() }
        do {
            let endpoint = try await node.start()
            starting.cancel()
            manager?.tell(.ready, .status("serves at \(endpoint)"))
        } catch let error as ConfigurationError {
            throw fail("\(error)", ExitStatus.configuration)
        } catch let error as SpoolError {
            // What the machine does wrong may pass: a service manager tries again.
            if case .unusable = error { throw fail("\(error)", ExitStatus.failure) }
            throw fail("\(error)", ExitStatus.configuration)
        } catch let error as StandingStoreError {
            switch error {
            case .diskFull, .unusable: throw fail("\(error)", ExitStatus.failure)
            default: break
            }
            throw fail("\(error)", ExitStatus.configuration)
        } catch {
            throw fail("\(error)", ExitStatus.failure)
        }
        let watch = Task { await manager?.keepWatch(of: loop) }
        await stop.wait()
        // Its own tor may take some seconds as well.
        manager?.tell(.stopping(within: .seconds(configuration.limits.shutdownTimeout + 15)))
        _ = await node.stop()
        watch.cancel()
    }

    /// The onion's address, for people and their cameras.
    private static func show(_ address: OnionAddress) {
        guard Terminal.isOutputATerminal else { return }
        Terminal.print("\(Terminal.bold("\(address)"))")
        if let code = try? QRCode("\(address)") {
            Terminal.print(code.terminalLines(isColoured: true).joined(separator: "\n"))
        }
    }
}
