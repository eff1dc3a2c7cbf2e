// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Redis
import Time

/// A simulated engine of a primary and a replica, with three Sentinels that promote the replica when the primary does
/// not respond.
///
/// The primary answers before the replica has its changes, as Redis does: a failover loses the changes in flight.
package final class SimulatedEngines: @unchecked Sendable {
    // Unchecked: a simulation has one thread.

    /// The two servers.
    package let servers: [SimulatedEngine]
    /// The addresses of the Sentinels.
    package let sentinels: [Endpoint]
    /// How often the replica was promoted.
    package private(set) var failovers = 0
    /// Called when the replica takes the primary's place.
    package var failedOver: () -> Void = {}

    package let simulation: Simulation
    private let name: String
    /// The index of the server that the Sentinels have elected. Each of them names it somewhat later.
    private var primary = 0
    /// The epoch and the primary that each Sentinel names.
    private var named: [(epoch: Int, server: Int)] = [(0, 0), (0, 0), (0, 0)]
    private var listeners: [Listener] = []
    private var clients: [ObjectIdentifier: EngineClient] = [:]
    private var random: SimulatedRandomNumbers
    /// When the last change arrives at the replica: later ones arrive later.
    private var lastArrival: MonotonicTime
    /// Since when most Sentinels cannot reach the primary; `nil` while they can.
    private var silentSince: MonotonicTime?

    /// How long the Sentinels wait before they promote: `down-after-milliseconds` of 5 s (Docs/cluster.md), and a
    /// second for their vote.
    private static let patience = Duration.seconds(6)
    private static let lag = Duration.milliseconds(1)...(.milliseconds(40))
    private static let (host, port): (String, UInt16) = ("127.0.0.1", 6379)

    /// The machine of a server or of a Sentinel, for ``SimulatedNetwork/cut(from:to:)``.
    package static func machine(ofServer index: Int) -> String { "engine \(index)" }
    package static func machine(ofSentinel index: Int) -> String { index < 2 ? machine(ofServer: index) : "sentinel" }

    /// - Parameter name: `cluster.name`, by which the Sentinels know the engine.
    package init(_ simulation: Simulation, name: String) throws {
        self.simulation = simulation
        self.name = name
        random = simulation.random("engines")
        lastArrival = simulation.now
        servers = (0..<2).map { index in
            SimulatedEngine(
                simulation, at: .tcp(host: Self.host, port: Self.port + UInt16(index)),
                on: Self.machine(ofServer: index), isPrimary: index == 0)
        }
        sentinels = (0..<3).map { .tcp(host: Self.host, port: 20_000 + Self.port + UInt16($0)) }
        for (index, server) in servers.enumerated() {
            server.replicate = { [unowned self] in replicate($0, from: index) }
            try server.start()
        }
        for (index, endpoint) in sentinels.enumerated() {
            let process = simulation.process("sentinel \(index)", on: Self.machine(ofSentinel: index))
            let loop = simulation.loop(in: process, name: "sentinel")
            let listener = try simulation.run(as: process) {
                try Listener(endpoint, on: loop) { [unowned self] stream in
                    let client = EngineClient(stream) { [unowned self] words, reply in
                        reply(answer(words, by: index))
                    } ended: { [unowned self] in
                        clients[$0] = nil
                    }
                    clients[ObjectIdentifier(client)] = client
                }
            }
            listeners.append(listener)
        }
        watch()
    }

    // MARK: Faults

    /// Ends the primary at once, and starts that server again after `pause`.
    package func killPrimary(for pause: Duration) {
        let index = primary
        guard servers[index].isRunning else { return }
        servers[index].kill()
        simulation.schedule(after: pause, in: simulation.background) { [self] in
            guard !servers[index].isRunning else { return }
            if index != primary { demote(index) }
            do { try servers[index].start() } catch { preconditionFailure("\(error)") }
        }
    }

    /// Kills both servers and restarts those that ran, without data and functions, as after a lost disk.
    package func loseState() {
        for server in servers {
            let wasRunning = server.isRunning
            server.kill()
            server.lose()
            if wasRunning { do { try server.start() } catch { preconditionFailure("\(error)") } }
        }
    }

    // MARK: Replication

    private func replicate(_ changes: [(key: [UInt8], entry: EngineStore.Entry?)], from index: Int) {
        guard index == primary, !changes.isEmpty else { return }
        let replica = 1 - index
        let arrival = max(simulation.now + random.duration(in: Self.lag), lastArrival)
        lastArrival = arrival
        simulation.schedule(at: arrival, in: simulation.background) { [self] in
            guard index == primary else { return }
            guard isReachable(replica, from: Self.machine(ofServer: index)) else { return isComplete = false }
            // A replica that has missed changes gets the whole state: a full resynchronisation.
            if isComplete { servers[replica].store.apply(changes) } else { copy() }
        }
    }

    /// Whether the replica has received all changes that were sent to it.
    private var isComplete = true

    private func copy() {
        servers[1 - primary].store = servers[primary].store
        isComplete = true
    }

    private func isReachable(_ server: Int, from machine: String) -> Bool {
        servers[server].isRunning
            && !simulation.network.isCut(between: machine, and: Self.machine(ofServer: server))
    }

    // MARK: Sentinels

    /// Checks twice a second whether two of the three Sentinels agree on a promotion or a demotion.
    private func watch() {
        simulation.schedule(after: .milliseconds(500), in: simulation.background) { [self] in
            func observers(of server: Int) -> Int {
                sentinels.indices.count { isReachable(server, from: Self.machine(ofSentinel: $0)) }
            }
            if observers(of: primary) >= 2 {
                silentSince = nil
                if !servers[1 - primary].isRunning { isComplete = false }
                // A former primary is demoted once two Sentinels reach it.
                if servers[1 - primary].isPrimary, observers(of: 1 - primary) >= 2 { demote(1 - primary) }
            } else {
                silentSince = silentSince ?? simulation.now
            }
            if let since = silentSince, simulation.now - since >= Self.patience, observers(of: 1 - primary) >= 2 {
                promote()
            }
            watch()
        }
    }

    private func promote() {
        primary = 1 - primary
        failovers += 1
        silentSince = nil
        isComplete = false
        servers[primary].isPrimary = true
        failedOver()
        let epoch = failovers
        for index in sentinels.indices {
            let delay = random.duration(in: .zero...(.seconds(2)))
            simulation.schedule(after: delay, in: simulation.background) { [self, primary] in
                if named[index].epoch < epoch { named[index] = (epoch, primary) }
            }
        }
    }

    /// Makes a server the replica. It loses the changes that it has made since the other one was promoted.
    private func demote(_ index: Int) {
        servers[index].isPrimary = false
        if servers[primary].isRunning { copy() }
    }

    private func answer(_ words: [[UInt8]], by sentinel: Int) -> RedisReply {
        let words = words.map { String(decoding: $0, as: UTF8.self) }
        guard words.count == 3, words[0] == "SENTINEL", words[2] == name else { return .error("ERR No such master") }
        func text(_ text: String) -> RedisReply { .bytes(Array(text.utf8)) }
        let (epoch, server) = named[sentinel]
        let port = "\(Self.port + UInt16(server))"
        switch words[1] {
        case "get-master-addr-by-name": return .array([text(Self.host), text(port)])
        case "MASTER":
            return .array(["ip", Self.host, "port", port, "config-epoch", "\(epoch)"].map { text($0) })
        default: return .error("ERR unknown subcommand")
        }
    }
}
