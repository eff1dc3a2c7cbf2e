// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import FoundationEssentials
import StandIns
import Time
import World

/// What the nodes of a simulated cluster share, and when each of them decides alone.
final class SimulatedCluster: @unchecked Sendable {
    // Unchecked: a simulation has one thread.

    let engines: SimulatedEngines
    private let nodes: [SimulatedNode]
    private let directory: String
    private var network: SimulatedNetwork { engines.simulation.network }
    private var now: MonotonicTime { engines.simulation.now }
    /// The times at which the nodes decided alone: as their logs say, and from their start until they reach the engine.
    private var alone: AloneTimes
    /// The times at which an envelope's fate may be unknown: while a node is cut off from the engine, has ended or
    /// stands still, until its session ends; and while the engine forgets what it had confirmed.
    private var unsure: AloneTimes
    /// How often the engine has forgotten what it allowed.
    private var losses = 0

    private static let keyFile = "cluster.key"
    /// The name that the Sentinels know, the default of `cluster.name`.
    private static let name = "tocsin"
    /// Longer than a session without a heartbeat (Docs/cluster.md).
    private static let sessionTime = Duration.seconds(35)
    /// The longest time before TCP notices the end of a cut, the engine's answers count as slow, or a node has found
    /// the engine again.
    private static let returnTime = Duration.seconds(75)
    /// The nanoseconds before a failover of which the replica may not know.
    private static let forgottenTime: UInt64 = 10_000_000_000
    /// By how many seconds the clocks of the nodes are ahead.
    private static let skews: [Int64] = [0, 30, -30]
    /// The most seconds between the clocks of two nodes.
    static let clocksApart: Int64 = 60

    init(_ nodes: [SimulatedNode], in directory: String) throws {
        (self.nodes, self.directory) = (nodes, directory)
        engines = try SimulatedEngines(nodes[0].simulation, name: Self.name)
        (alone, unsure) = (AloneTimes(nodes: nodes.count), AloneTimes(nodes: nodes.count))
        try PrivateFile.create("\(directory)/\(Self.keyFile)", holding: [UInt8](repeating: 0xC1, count: 32))
        for (node, skew) in zip(nodes, Self.skews) { node.moveClock(by: skew) }
        engines.failedOver = { [unowned self] in
            // What the replica had not received is forgotten.
            losses += 1
            let forgotten = MonotonicTime(nanoseconds: now.nanoseconds - Self.forgottenTime)
            for index in nodes.indices { unsure.add(forgotten...(now + Self.returnTime), of: index) }
        }
    }

    // MARK: Setup

    /// The table `[cluster]` of a node's configuration.
    func table(for node: SimulatedNode) -> String {
        """

        [cluster]
        node = "\(node.machine)"
        nodes = \(nodes.count)
        sentinels = [\(engines.sentinels.map { "\"\($0)\"" }.joined(separator: ", "))]
        key_file = "\(Self.keyFile)"
        """
    }

    /// Copies the keys of the first node to those that start after it (Docs/cluster.md); does nothing for another node.
    func copyKeys(of first: SimulatedNode) throws {
        guard first.index == 0 else { return }
        for node in nodes.dropFirst() {
            try FileManager.default.createDirectory(
                atPath: "\(directory)/\(node.state)", withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700])
            for name in ["handles.key", "vapid.pem"] {
                let key = try Data(contentsOf: URL(filePath: "\(directory)/\(first.state)/\(name)"))
                try PrivateFile.replace(
                    "\(directory)/\(node.state)/\(name)", holding: Array(key), isDurable: false)
            }
        }
    }

    // MARK: Faults

    func begin(_ event: WeatherEvent, _ node: SimulatedNode) {
        let end = now + event.length
        switch event.kind {
        case .engineKill: engines.killPrimary(for: event.length)
        case .engineSlow: slow(.milliseconds(100 + Int64(event.choice >> 8 & 0x3FF)))
        case .engineLoss:
            engines.loseState()
            losses += 1
            for index in nodes.indices { unsure.add(now...(now + Self.returnTime), of: index) }
        case .stoppedNode:
            node.running?.process.stoppedUntil = end
            unsure.add(now...(end + Self.sessionTime), of: node.index)
        case .cutFromEngine, .cutOneWay, .cutFromServices, .cutReplica:
            for (from, to) in cut(event, node) { network.cut(from: from, to: to) }
            if event.kind != .cutFromServices { unsure.add(now...(end + Self.returnTime), of: node.index) }
        default: break
        }
    }

    func end(_ event: WeatherEvent, _ node: SimulatedNode) {
        if event.kind == .engineSlow { return slow(.zero) }
        for (from, to) in cut(event, node) { network.heal(from: from, to: to) }
    }

    private func slow(_ delay: Duration) {
        for server in engines.servers { server.delay = delay }
    }

    /// The pairs of machines of which a cut keeps the first's bytes from the second.
    private func cut(_ event: WeatherEvent, _ node: SimulatedNode) -> [(String, String)] {
        let servers = [0, 1].map { SimulatedEngines.machine(ofServer: $0) }
        let all = servers + [SimulatedEngines.machine(ofSentinel: 2)]
        switch event.kind {
        case .cutFromEngine: return all.flatMap { [(node.machine, $0), ($0, node.machine)] }
        case .cutOneWay:
            let isToEngine = event.choice.isMultiple(of: 2)
            return all.map { isToEngine ? (node.machine, $0) : ($0, node.machine) }
        case .cutFromServices:
            return [(node.machine, SimulatedWorld.servicesMachine), (SimulatedWorld.servicesMachine, node.machine)]
        case .cutReplica:
            // The first server and its Sentinel are on one side, with a node every other time; all others are on the
            // other side.
            let alone = [servers[0]] + (event.choice.isMultiple(of: 2) ? [node.machine] : [])
            let others = [servers[1], all[2]] + nodes.map(\.machine).filter { !alone.contains($0) }
            return alone.flatMap { one in others.flatMap { [(one, $0), ($0, one)] } }
        default: return []
        }
    }

    // MARK: Decisions alone

    /// A node starts: it decides alone until it reaches the engine.
    func started(_ node: SimulatedNode) { alone.began(node.index, at: now) }

    /// A node has ended. The others may deliver what it was delivering once its session has ended.
    func ended(_ node: SimulatedNode) { unsure.add(now...(now + Self.sessionTime), of: node.index) }

    func logged(_ line: String, by node: SimulatedNode) {
        alone.read(line[...], of: node.index, since: now, at: now)
    }

    /// Whether an envelope may have been delivered twice: a node decided alone at this time, or the envelope's fate may
    /// have been unknown.
    func mayRepeat(in time: ClosedRange<MonotonicTime>) -> Bool { alone.overlap(time) || unsure.overlap(time) }

    /// Whether a node decided alone at this time.
    func decidedAlone(in time: ClosedRange<MonotonicTime>) -> Bool { alone.overlap(time) }

    /// The most unproven device tokens that all nodes together may forward since `start`.
    /// - Parameter start: when the first node began.
    func maximumUnproven(since start: MonotonicTime) -> Int {
        var limit = SharedLimit(burst: ServiceJudge.burst, perMinute: ServiceJudge.perMinute, nodes: nodes.count)
        for duration in timesAlone { limit.decidedAlone(for: duration) }
        return limit.maximum(in: now - start) + losses * ServiceJudge.burst
    }

    /// How long each node has decided alone, for each time that one did.
    var timesAlone: [Duration] {
        var alone = alone
        alone.endAll(at: now)
        return alone.durations
    }
}
