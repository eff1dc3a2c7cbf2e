// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import EventLoop
import Simulator
import TNP
import Time
import TocsinClient

struct BenchCluster: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cluster",
        abstract: "Kill the nodes of a cluster and its engine (kill -9) at random times while senders submit.",
        discussion: """
            Three nodes share a Redis server. Each sender has a list of all nodes. It submits every other envelope at two \
            nodes at once, as a sender does that believes its first node to be dead. Exits with 0 only if every envelope \
            was delivered, and none rang twice except those in flight during a crash of a node, or sent while the engine \
            was gone.

            EXAMPLES
              tocsin-bench cluster --kills 20
              tocsin-bench cluster --envelopes 100000 --kills 50
            """)

    @Option(help: "Number of kills of nodes.")
    var kills = 20

    @Option(help: "Number of kills of the engine.")
    var engineKills = 3

    @Option(help: "Minimum number of envelopes.")
    var envelopes = 0

    @Option(help: "Maximum seconds between two kills.")
    var interval = 2.0

    @Option(help: "Submissions in flight.")
    var inFlight = 60

    func run() async throws {
        let engine = try RedisServer()
        try await engine.start()
        let tables = """
            \(SimulatedConfiguration.unlimitedRates)
            [cluster]
            node = "{node}"
            nodes = \(Cluster.nodes)
            redis = "\(engine.endpoint)"
            key_file = "cluster.key"
            """
        do {
            try await run(with: engine, tables)
        } catch {
            await engine.stop()
            throw error
        }
        await engine.stop()
    }

    private func run(with engine: RedisServer, _ tables: String) async throws {
        try await TestBed.run("cluster", nodes: Cluster.nodes, more: tables) { bed in
            let result = try await Cluster(bed, engine).run(
                kills: kills, engineKills: engineKills, envelopes: envelopes, interval: interval, inFlight: inFlight)
            Terminal.endProgress()
            Terminal.print(result.table)
            guard result.isGood else { throw fail("the cluster lost or repeated envelopes", .failure) }
        }
    }
}

/// The result of a run.
private struct ClusterResult {
    var kills = 0
    var engineKills = 0
    var delivered = 0
    var atTwoNodes = 0
    var wrongOutcomes = 0
    var notSeen = 0
    var seconds = 0.0
    var providerTokens = 0
    var repeatedWithoutEngine = 0
    var sums = Tally.Sums()

    var isGood: Bool {
        delivered > 0 && atTwoNodes > 0 && wrongOutcomes == 0 && notSeen == 0 && sums.unexplained == 0
            && sums.otherIDs == 0 && sums.otherCollapseIDs == 0 && providerTokens <= 1
    }

    var table: String {
        """
        kills of nodes                        \(kills)
        kills of the engine                   \(engineKills)
        envelopes delivered                   \(delivered)
        submitted at two nodes at once        \(atTwoNodes)
        outcomes other than DELIVERED         \(wrongOutcomes)
        lost                                  \(notSeen)
        repeated, in flight during a kill     \(sums.repeats - sums.unexplained - repeatedWithoutEngine)
        repeated, at two nodes, engine gone   \(repeatedWithoutEngine)
        repeated without need                 \(sums.unexplained)
        repeated under another apns-id        \(sums.otherIDs)
        provider tokens for Apple             \(providerTokens)
        time                                  \(Terminal.number(seconds, digits: 1)) s
        """
    }
}

/// Senders that submit while nodes and the engine are killed and restarted.
private actor Cluster {
    static let nodes = 3
    /// How long the node and the engine take to find each other again after a start of the engine.
    private static let returnTime = Duration.seconds(12)

    private nonisolated let loop = EventLoop(name: "senders")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let bed: TestBed
    private let engine: RedisServer
    /// Each client prefers another node.
    private let clients: [TocsinClient]
    private var source: EnvelopeGenerator
    private var isOver = false
    /// Whether some node may be alone.
    private var isEngineGone = false
    private var result = ClusterResult()
    private var names: [Int] = []

    init(_ bed: TestBed, _ engine: RedisServer) {
        self.bed = bed
        self.engine = engine
        let loop = loop
        clients = (0..<Self.nodes * 3).map { number in
            let endpoints = (0..<Self.nodes).map { bed.endpoint(of: (number + $0) % Self.nodes) }
            return TocsinClient(
                TocsinClient.Options(nodes: endpoints, patience: .zero, isolatesPhones: false), on: loop)
        }
        source = EnvelopeGenerator(bed.tokens)
    }

    func run(
        kills: Int, engineKills: Int, envelopes: Int, interval: Double, inFlight: Int
    ) async throws -> ClusterResult {
        let start = MonotonicTime.now
        let senders = Task {
            await withTaskGroup { group in
                for index in 0..<inFlight { group.addTask { await self.work(index) } }
            }
        }
        // Slow push services, so that some envelopes are always in flight.
        var slow = Faults()
        slow.latency = .uniform(1...50)
        for platform in [Device.Platform.apnsProduction, .apnsDevelopment, .fcm] {
            try await bed.services.set(slow, on: platform)
        }
        let events = (Array(repeating: true, count: kills) + Array(repeating: false, count: engineKills)).shuffled()
        for (number, isNode) in events.enumerated() {
            Terminal.progress("kill \(number + 1) of \(events.count), \(names.count) delivered …")
            await loop.sleep(for: .seconds(Double.random(in: 0.2...max(0.3, interval))))
            if isNode {
                let node = Int.random(in: 0..<Self.nodes)
                await bed.killNode(node)
                try await bed.startNode(node)
                result.kills += 1
            } else {
                try await killEngine()
            }
        }
        while names.count < envelopes {
            Terminal.progress("\(names.count) of \(envelopes) delivered …")
            await loop.sleep(for: .milliseconds(200))
        }
        isOver = true
        await senders.value
        for client in clients { await client.close() }
        result.seconds = (MonotonicTime.now - start).milliseconds / 1000
        result.delivered = names.count
        result.notSeen = names.count { !bed.tally.has($0) }
        result.sums = bed.tally.sums
        result.providerTokens = await bed.services.providerTokensSeen(.apnsProduction)
        return result
    }

    private func killEngine() async throws {
        isEngineGone = true
        await engine.kill()
        await loop.sleep(for: .seconds(Double.random(in: 0.1...3)))
        try await engine.start()
        await loop.sleep(for: Self.returnTime)
        isEngineGone = false
        result.engineKills += 1
    }

    private func work(_ index: Int) async {
        var turn = index
        while !isOver {
            let envelope = source.next([Magic.iOS, .iOSDev, .android][Int.random(in: 0..<3)])
            turn += 1
            let isTwice = turn % 2 == 0
            var mayRingTwice = isTwice && isEngineGone
            let first = clients[turn % clients.count]
            let second = clients[(turn + 1) % clients.count]
            async let one = submit(envelope, by: first)
            async let other = isTwice ? submit(envelope, by: second) : .delivered
            if isTwice { result.atTwoNodes += 1 }
            for outcome in await [one, other] where outcome != .delivered { result.wrongOutcomes += 1 }
            names.append(envelope.tallyName)
            mayRingTwice = mayRingTwice || isTwice && isEngineGone
            if mayRingTwice, bed.tally.excuse(envelope.tallyName) { result.repeatedWithoutEngine += 1 }
        }
    }

    private func submit(_ envelope: Envelope, by client: TocsinClient) async -> Outcome.Kind? {
        try? await client.submit(envelope, timeout: .seconds(60)).kind
    }
}
