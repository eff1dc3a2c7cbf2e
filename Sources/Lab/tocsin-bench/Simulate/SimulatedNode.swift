// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import FoundationEssentials
import Glibc
import KeyHolder
import Logging
import NodeConfiguration
import TNP
import Time
import TocsinNode
import Tor
import World

/// A machine with a node: its disk, its clock, and the process that runs now.
final class SimulatedNode: @unchecked Sendable {
    // Unchecked: a simulation has one thread.

    let simulation: Simulation
    let disk: SimulatedDisk
    /// The place in the list of all nodes.
    let index: Int
    /// The running node; `nil` while there is none.
    private(set) var running: (process: SimulatedProcess, loop: EventLoop, node: Node)?
    /// The key holders of the running node; `nil` if it has the keys itself.
    private(set) var holders: SimulatedHolders?
    private(set) var kills = 0
    private var starts = 0
    /// The number of failed starts in a row while the disk was in order.
    private var failedStarts = 0
    private let directory: String

    /// Makes the text of the configuration.
    var configurationText: () -> String = { "" }
    /// Whether a key holder has the keys.
    var hasKeyHolder = false
    /// Makes the handler that takes the node's log.
    var log: () -> any LogHandler = { SwiftLogNoOpLogHandler() }
    /// Called before each start of the node.
    var starting: () -> Void = {}
    /// Called when the node has ended. Its disk keeps what it had to store before `flush`; the node may have lost the
    /// rest.
    var ended: (_ flush: MonotonicTime, _ isGraceful: Bool) -> Void = { _, _ in }
    /// Called for a rule that is broken.
    var violated: (String) -> Void = { _ in }

    /// How many failed starts in a row break a rule. A fault of the disk that has ended may still make the first one
    /// fail.
    private static let maximumFailedStarts = 3

    init(_ index: Int, of simulation: Simulation, in directory: String) {
        (self.index, self.simulation, self.directory) = (index, simulation, directory)
        address =
            OnionAddress(
                publicKey: [UInt8](repeating: 0x0E, count: Ed25519.publicKeyLength - 1) + [0x0E + UInt8(index)])!
        suffix = index == 0 ? "" : "-\(index + 1)"
        state = "state\(suffix)"
        disk = SimulatedDisk(in: simulation, name: "disk\(suffix)", under: "\(directory)/\(state)/")
    }

    /// What tells its files apart from those of other nodes.
    private let suffix: String
    /// The names of its state directory and of its onion's, in the directory of the world.
    let state: String
    var onionDirectory: String { "onion\(suffix)" }
    private var configurationFile: String { "\(directory)/tocsin\(suffix).toml" }

    /// The machine's name, for ``SimulatedNetwork/cut(from:to:)``.
    var machine: String { "node\(suffix)" }
    /// The node's onion.
    let address: OnionAddress
    /// Where the node listens, and by which names senders reach it: the network puts a PROXY line in front, as tor
    /// does.
    var endpoint: Endpoint { .tcp(host: "127.0.0.1", port: 7077 + UInt16(index)) }
    var httpEndpoint: Endpoint { .tcp(host: "127.0.0.1", port: 8080 + UInt16(index)) }
    var onion: Endpoint { .tcp(host: address.description, port: 7077) }
    var httpOnion: Endpoint { .tcp(host: "node\(suffix).test", port: 80) }
    /// The names by which nodes reach it as their upstream node, and attackers, who share circuits.
    var directOnion: Endpoint { .tcp(host: "node\(suffix).test", port: 7077) }
    var attackedOnion: Endpoint { .tcp(host: "attacked\(suffix).test", port: 7077) }

    // MARK: The process

    /// Starts the node; tries again as a service manager does if it cannot start.
    func start() {
        starts += 1
        starting()
        let process = simulation.process("node\(suffix) \(starts)", on: machine)
        process.clockSkew = clockSkew
        let loop = simulation.loop(in: process, name: "node")
        do {
            try configurationText().write(toFile: configurationFile, atomically: false, encoding: .utf8)
            let keyHolder = try simulation.run(as: process) { try startKeyHolder(of: process) }
            let node = Node(
                try Configuration(file: configurationFile), keyHolder: keyHolder, disk: disk,
                logger: Logger(label: "node") { _ in log() }, on: loop)
            running = (process, loop, node)
            simulation.run(as: process) {
                _ = Task(executorPreference: loop) { [self] in
                    do {
                        _ = try await node.start()
                        failedStarts = 0
                    } catch {
                        Logger(label: "node") { _ in log() }.error("the node cannot start: \(error)")
                        failedStarts = disk.isInOrder ? failedStarts + 1 : 0
                        if failedStarts == Self.maximumFailedStarts { violated("the node cannot start") }
                        if running?.process === process { endProcess() }
                        simulation.schedule(after: .seconds(5), in: simulation.background) { self.start() }
                    }
                }
            }
        } catch {
            violated("the configuration is invalid: \(error)")
        }
    }

    private func startKeyHolder(of process: SimulatedProcess) throws -> KeyHolder? {
        holders = nil
        guard hasKeyHolder else { return nil }
        let holders = SimulatedHolders(simulation, of: process, named: machine, configuration: configurationFile)
        self.holders = holders
        let keyHolder = KeyHolder(holders)
        keyHolder.use(try keyHolder.startBlocking())
        return keyHolder
    }

    /// Checks that another key holder has started soon after one has ended. Call this once a minute.
    func checkKeyHolder() {
        let isMissing = holders.map { !$0.hasEnded && $0.holders.isEmpty } ?? false
        minutesWithoutKeyHolder = isMissing ? minutesWithoutKeyHolder + 1 : 0
        if minutesWithoutKeyHolder > Self.maximumWithoutKeyHolder {
            violated("no key holder for \(minutesWithoutKeyHolder) minutes")
        }
    }

    private var minutesWithoutKeyHolder = 0
    /// In minutes. The node starts another key holder after a minute at most.
    private static let maximumWithoutKeyHolder = 3

    /// Forgets the process, which has ended, and ends its key holders.
    private func endProcess() {
        running = nil
        holders?.end()
        holders = nil
    }

    /// Ends the node at once, and starts it again after `pause`.
    func kill(losingPower: Bool, for pause: Duration) {
        guard let running else { return }
        endProcess()
        kills += 1
        if losingPower {
            simulation.cutPower(of: running.process)
            disk.powerFailed()
        } else {
            simulation.kill(running.process)
            disk.processesEnded()
        }
        ended(certainFlush, false)
        replaceFiles()
        simulation.schedule(after: pause, in: simulation.background) { [self] in
            running.process.hasPower = true
            start()
        }
    }

    /// The time before which all that the node had to store is on the disk.
    private var certainFlush: MonotonicTime { disk.certainFlush(of: "\(directory)/\(state)/spool.sqlite") }

    /// Lets the node write to the network or the disk `operations` more times, then ends it.
    func kill(afterOperations operations: Int, losingPower: Bool, for pause: Duration) {
        guard let process = running?.process else { return }
        process.atOperation = { [self] in
            if running?.process === process { kill(losingPower: losingPower, for: pause) }
        }
        process.operationsLeft = operations
    }

    /// Stops the node gracefully, and starts it again after `pause`.
    func restart(after pause: Duration) {
        guard let running else { return }
        simulation.run(as: running.process) {
            _ = Task(executorPreference: running.loop) { [self] in
                _ = await running.node.stop()
                guard self.running?.process === running.process else { return }
                endProcess()
                simulation.kill(running.process)
                disk.processesEnded()
                ended(certainFlush, true)
                simulation.schedule(after: pause, in: simulation.background) { self.start() }
            }
        }
    }

    /// Writes the configuration again and makes the node read it.
    func reload() {
        guard let running else { return }
        try? configurationText().write(toFile: configurationFile, atomically: false, encoding: .utf8)
        simulation.run(as: running.process) {
            _ = Task(executorPreference: running.loop) { await running.node.reload() }
        }
    }

    /// Replaces the small files of the state directory by copies: an ended process may still hold locks on the old
    /// ones, and write to them.
    private func replaceFiles() {
        let state = "\(directory)/\(state)"
        guard let names = try? FileManager.default.contentsOfDirectory(atPath: state) else { return }
        for name in names {
            let path = "\(state)/\(name)"
            guard let bytes = FileManager.default.contents(atPath: path) else { continue }
            try? PrivateFile.replace(path, holding: Array(bytes), isDurable: false)
        }
    }

    // MARK: The clock

    /// By how many milliseconds the wall clock of the machine is ahead.
    private(set) var clockSkew: Int64 = 0 {
        didSet {
            running?.process.clockSkew = clockSkew
            holders?.clockMoved()
        }
    }
    /// Called when the clock has been moved.
    var clockMoved: () -> Void = {}

    func moveClock(by seconds: Int64) {
        clockSkew += seconds * 1000
        clockMoved()
    }
}
