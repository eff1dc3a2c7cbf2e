// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Confinement
import Console
import Cryptography
import EventLoop
import KeyHolder
import Logging
import NodeConfiguration
import QRCode
import Settings
import Store
import Time
import TocsinNode
import Tor

struct RunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Run the node.",
        discussion: """
            Listens for senders behind tor. The node runs its own tor if tor is installed and no other is configured.

            SIGTERM and SIGINT shut the node down gracefully: it accepts no new work, answers what is in flight and \
            exits. SIGHUP reloads configuration and credentials without losing an envelope. A changed credential file \
            is reloaded within seconds without a signal.

            EXAMPLES
              tocsin run
              tocsin run --config /etc/tocsin/tocsin.toml
              kill -HUP PID                                 reload the configuration
            """)

    @OptionGroup var options: ConfigurationOption

    @Flag(
        help: ArgumentHelp(
            "End when everything is read and the addresses are free: for tocsin check.", visibility: .hidden))
    var rehearse = false

    @Option(
        help: ArgumentHelp("A state directory in place of the configuration's: for tocsin check.", visibility: .hidden))
    var rehearseIn: String?

    func run() async throws { preconditionFailure("use prepare() and run(_:), see Main") }

    /// The result of ``prepare()``, which runs while the process has a single thread.
    struct Prepared {
        fileprivate let manager: ServiceManager?
        fileprivate let configuration: Configuration
        fileprivate let isolation: ProcessIsolation
        fileprivate let keyHolder: KeyHolder?
    }

    /// The smallest limit of open files with which the node can start its processes.
    private static let fewestFiles: UInt64 = 128

    /// Reads the configuration and confines the process.
    /// - Throws: the exit code, after printing the error.
    func prepare() throws -> Prepared {
        let manager = ServiceManager.ofThisProcess()
        if !ProcessHardening.forbidCoreDumps() {
            Terminal.error("tocsin: cannot disable core dumps, which would contain keys")
        }
        let openFiles = ProcessHardening.raiseOpenFiles()
        guard openFiles >= Self.fewestFiles else {
            throw fail(
                "the limit of open files is \(openFiles), and the node needs \(Self.fewestFiles) and one for each sender: "
                    + "ulimit -n 65536, LimitNOFILE=65536 in a unit, or --ulimit nofile=65536 for a container", .failure
            )
        }
        let file = try options.file()
        if rehearse, rehearseIn == nil { try StartRehearsal.becomeOwner(of: options.load().state) }
        do {
            var (configuration, isolation, keyHolder) = try ProcessIsolation.prepare(configuration: file) {
                try ConfigurationOption.load(file, copies: $0, state: rehearseIn)
            }
            try isolation.confine(configuration)
            return Prepared(manager: manager, configuration: configuration, isolation: isolation, keyHolder: keyHolder)
        } catch let error as ConfigurationError {
            throw fail("\(error)", .configuration)
        } catch {
            throw fail("\(error)", .failure)
        }
    }

    /// Runs the node until a signal stops it.
    func run(_ prepared: Prepared) async throws {
        let (manager, configuration) = (prepared.manager, prepared.configuration)
        let loop = EventLoop(name: "node")
        if rehearse {
            let logger = Logger(label: "rehearsal") { _ in SwiftLogNoOpLogHandler() }
            let node = Node(
                configuration, isolation: prepared.isolation, keyHolder: prepared.keyHolder, logger: logger, on: loop)
            return try await Self.failing { try await node.rehearse() }
        }
        let node = Node(
            configuration, isolation: prepared.isolation, keyHolder: prepared.keyHolder,
            logger: configuration.makeLogger(), on: loop
        ) { Self.show($0) }
        let stop = StopSignal(on: loop)
        await stop.arm {
            Task {
                // A node that is still starting has nothing to reload, and must not report readiness.
                guard await node.isServing else { return }
                manager?.tell(.reloading(since: .now))
                await node.reload()
                manager?.tell(.ready)
            }
        }
        let starting = Task { await manager?.keepStarting() }
        defer { starting.cancel() }
        let endpoint = try await Self.failing { try await node.start() }
        starting.cancel()
        manager?.tell(.ready, .status("serving at \(endpoint)"))
        let watch = Task { await manager?.keepWatch(of: loop) }
        await stop.wait()
        // Stopping the node's own tor may take some seconds more.
        manager?.tell(.stopping(within: .seconds(configuration.limits.shutdownTimeout + 15)))
        _ = await node.stop()
        watch.cancel()
    }

    /// Runs `start`.
    /// - Throws: the exit code of a node that did not start, after printing the error.
    private static func failing<Result: Sendable>(_ start: @Sendable () async throws -> Result) async throws -> Result {
        do {
            return try await start()
        } catch let error as ConfigurationError {
            throw fail("\(error)", .configuration)
        } catch let error as StoreError {
            // The status tells the service manager to restart the node only if the failure may be temporary.
            throw fail("\(error)", error.isTransient ? .failure : .configuration)
        } catch {
            throw fail("\(error)", .failure)
        }
    }

    /// Shows the onion's address and its QR code on a terminal.
    private static func show(_ address: OnionAddress) {
        guard Terminal.isOutputATerminal else { return }
        Terminal.print("\(Terminal.bold("\(address)"))")
        if let code = try? QRCode("\(address)") {
            Terminal.print(code.terminalLines(isColoured: true).joined(separator: "\n"))
        }
    }
}
