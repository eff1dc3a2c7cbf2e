// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import EventLoop
import StandIns
import Synchronization
import TNP
import Time
import TocsinClient

/// A fault that the run injects into a cluster.
enum ClusterFault: String {
    case killNode = "kill of a node"
    case killEngine = "kill of the engine"
    case cutFromEngine = "cut from the engine"
    case cutFromPushServices = "cut from Apple and Google"
    case upgrade
}

/// The result of a run.
struct ClusterResult {
    /// The faults, with the seconds from the start of the run to each one's beginning and end.
    var faults: [(fault: ClusterFault, time: ClosedRange<Double>)] = []
    var delivered = 0
    var atTwoNodes = 0
    var retries = 0
    var wrongOutcomes = 0
    var notSeen = 0
    var seconds = 0.0
    var providerTokens = 0
    /// How often a node decided alone, or may have done so.
    var timesAlone = 0
    var repeatedAlone = 0
    /// The deliveries to the phone that is flooded, and how many the limits allow.
    var flooded: (count: Int, maximum: Int)?
    /// The unproven device tokens that the nodes forwarded, and how many the limits allow: each phone's, at its first
    /// delivery, and those that Apple and Google refused.
    var unproven: (count: Int, maximum: Int)?
    /// How often Apple and Google refused a device token.
    var refusals = 0
    var sums = Tally.Sums()
    /// The times of the first and the last delivery of some envelopes that were repeated without need, in seconds from
    /// the start of the run.
    var unexplained: [ClosedRange<Double>] = []

    var isGood: Bool {
        delivered > 0 && atTwoNodes > 0 && wrongOutcomes == 0 && notSeen == 0 && sums.unexplained == 0
            && sums.otherIDs == 0 && sums.otherCollapseIDs == 0 && providerTokens <= 1
            && [flooded, unproven].allSatisfy { limit in limit.map { $0.count <= $0.maximum && $0.count > 0 } ?? true }
    }

    var table: String {
        func count(_ fault: ClusterFault) -> String { "\(faults.count { $0.fault == fault })" }
        var rows = [
            ("kills of nodes", count(.killNode)), ("kills of the engine", count(.killEngine)),
            ("cuts from the engine", count(.cutFromEngine)),
            ("cuts from Apple and Google", count(.cutFromPushServices)), ("upgrades", count(.upgrade)),
            ("times that a node decided alone", "\(timesAlone)"),
            ("envelopes delivered", "\(delivered)"), ("submitted at two nodes at once", "\(atTwoNodes)"),
            ("RETRY, submitted again", "\(retries)"), ("other outcomes than DELIVERED", "\(wrongOutcomes)"),
            ("lost", "\(notSeen)"),
            ("repeated, fate unknown to the node", "\(sums.repeats - sums.unexplained - repeatedAlone)"),
            ("repeated, while a node was alone", "\(repeatedAlone)"), ("repeated without need", "\(sums.unexplained)"),
            ("repeated under another apns-id", "\(sums.otherIDs)"), ("provider tokens for Apple", "\(providerTokens)"),
        ]
        if let flooded { rows.append(("deliveries to a flooded phone", "\(flooded.count), limit \(flooded.maximum)")) }
        if let unproven {
            rows.append(("unproven device tokens forwarded", "\(unproven.count), limit \(unproven.maximum)"))
            rows.append(("refusals by Apple and Google", "\(refusals)"))
        }
        rows.append(("time", "\(Terminal.number(seconds, digits: 1)) s"))
        return rows.map { Terminal.padded($0.0, 38) + $0.1 }.joined(separator: "\n")
    }

    /// When envelopes were repeated without need, and the faults at those times; empty if none was repeated.
    var unexplainedRepeats: String {
        func span(_ time: ClosedRange<Double>) -> String {
            "\(Terminal.number(time.lowerBound, digits: 1))–\(Terminal.number(time.upperBound, digits: 1)) s"
        }
        guard !unexplained.isEmpty else { return "" }
        let rows =
            unexplained.map { ("repeated without need", $0) }
            + faults.filter { fault in unexplained.contains { $0.overlaps(fault.time) } }.map {
                ($0.fault.rawValue, $0.time)
            }
        return rows.map { "\n" + Terminal.padded($0.0, 38) + span($0.1) }.joined()
    }
}

/// Senders that submit while a cluster suffers faults, one after the other.
actor ClusterRun {
    /// The limits of the nodes, if senders flood them.
    static let limits = ["device": (burst: 300, perMinute: 300), "unproven": (burst: 300, perMinute: 120)]
    /// The longest time after a failure until the nodes reach the engine, or the push services, again.
    private static let returnTime = Duration.seconds(12)
    /// How long a sender resubmits an envelope.
    private static let patience = Duration.seconds(180)

    private nonisolated let loop = EventLoop(name: "senders")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let bed: TestBed
    private let engine: RedisServer
    private let nodes: Int
    private let namespaces: NodeNamespaces?
    /// Three clients prefer each node.
    private var clients: [TocsinClient] = []
    private var source: EnvelopeGenerator
    // Each generator has another length of the ciphertext, so that no two envelopes have the same text.
    private var invented = EnvelopeGenerator(ciphertextLength: 272)
    private let floodedPhone = Hex.encode(SecureRandom.bytes(32))
    private var floodSource: EnvelopeGenerator
    private var device: SharedLimit
    private var unproven: SharedLimit
    private var upgraded = 0
    private var isOver = false
    private var alone: AloneTimes
    /// The envelopes that were delivered more than once, with the times of their submission.
    private var repeated: [(envelope: Int, time: ClosedRange<MonotonicTime>)] = []
    private var result = ClusterResult()
    private var names: [Int] = []

    /// - Parameter namespaces: the nodes' namespaces, and the SOCKS port of a tor for the senders; `nil` for nodes on
    ///   loopback.
    init(
        _ bed: TestBed, _ engine: RedisServer, nodes: Int, namespaces: (NodeNamespaces, socks: Endpoint)?
    ) async throws {
        self.bed = bed
        self.engine = engine
        self.nodes = nodes
        alone = AloneTimes(nodes: nodes)
        self.namespaces = namespaces?.0
        (device, unproven) = (Self.limit("device", nodes: nodes), Self.limit("unproven", nodes: nodes))
        source = EnvelopeGenerator(bed.tokens)
        floodSource = EnvelopeGenerator([.iOS: [Array(floodedPhone.utf8)]], ciphertextLength: 288)
        var endpoints = (0..<nodes).map(bed.endpoint(of:))
        let proxy = namespaces.map { Proxy.socks5($0.socks, nil) }
        if let proxy { endpoints = try await onions(through: proxy) }
        clients = (0..<nodes * 3).map { number in
            let own = (0..<nodes).map { endpoints[(number + $0) % nodes] }
            return TocsinClient(
                TocsinClient.Options(nodes: own, proxy: proxy, patience: .zero, isolatesPhones: false), on: loop)
        }
    }

    private static func limit(_ key: String, nodes: Int) -> SharedLimit {
        let rate = limits[key] ?? (0, 0)
        return SharedLimit(burst: rate.burst, perMinute: rate.perMinute, nodes: nodes)
    }

    /// Waits until the onions of all nodes can be reached.
    private func onions(through proxy: Proxy) async throws -> [Endpoint] {
        var found: [Endpoint] = []
        while found.count < nodes {
            Terminal.progress("\(found.count) of \(nodes) onions can be reached …")
            found.append(try await bed.reachableOnion(of: found.count, through: proxy))
        }
        return found
    }

    func result(
        of faults: [ClusterFault], envelopes: Int, interval: Double, inFlight: Int
    ) async throws -> ClusterResult {
        let start = MonotonicTime.now
        // A device token that is refused again counts once: a node repeats a request whose answer was lost.
        let refused = Mutex<[String: Int]>([:])
        // With these statuses, Apple and Google refuse a device token.
        await bed.services.observeRefusals { status, deviceToken in
            if [400, 404, 410].contains(status) { refused.withLock { $0[deviceToken, default: 0] += 1 } }
        }
        let senders = Task {
            await withTaskGroup { group in
                for index in 0..<inFlight { group.addTask { await self.work(index) } }
                guard self.namespaces != nil else { return }
                for index in 0..<inFlight / 4 { group.addTask { await self.flood(index) } }
            }
        }
        let logs = Task { await self.readLogs() }
        // Slow push services, so that some envelopes are always in flight.
        var slow = Faults()
        slow.latency = .uniform(1...50)
        for platform in [Device.Platform.apnsProduction, .apnsDevelopment, .fcm] {
            try await bed.services.set(slow, on: platform)
        }
        for (number, fault) in faults.enumerated() {
            Terminal.progress("fault \(number + 1) of \(faults.count), \(names.count) delivered …")
            await loop.sleep(for: .seconds(Double.random(in: 0.2...max(0.3, interval))))
            let begin = MonotonicTime.now
            try await happen(fault)
            result.faults.append((fault, (begin - start).seconds...(MonotonicTime.now - start).seconds))
        }
        while names.count < envelopes {
            Terminal.progress("\(names.count) of \(envelopes) delivered …")
            await loop.sleep(for: .milliseconds(200))
        }
        isOver = true
        let time = MonotonicTime.now - start
        await senders.value
        for client in clients { await client.close() }
        await logs.value
        for (envelope, time) in repeated where alone.overlap(time) && bed.tally.excuse(envelope) {
            result.repeatedAlone += 1
        }
        for duration in alone.durations {
            device.decidedAlone(for: duration)
            unproven.decidedAlone(for: duration)
        }
        result.timesAlone = alone.durations.count
        result.seconds = time.seconds
        result.delivered = names.count
        result.notSeen = names.count { !bed.tally.has($0) }
        result.sums = bed.tally.sums
        result.unexplained = bed.tally.unexplained(atMost: 10).map {
            ($0.lowerBound - start).seconds...($0.upperBound - start).seconds
        }
        result.providerTokens = await bed.services.providerTokensSeen(.apnsProduction)
        if namespaces != nil {
            let phones = bed.tokens.values.reduce(1) { $0 + $1.count }
            result.flooded = (bed.tally.deliveriesToWatched, device.maximum(in: time))
            let times = refused.withLock { Array($0.values) }
            result.unproven = (phones + times.count, unproven.maximum(in: time))
            result.refusals = times.reduce(0, +)
        }
        return result
    }

    // MARK: Faults

    private func happen(_ fault: ClusterFault) async throws {
        let node = Int.random(in: 0..<nodes)
        switch fault {
        case .killNode:
            await bed.killNode(node)
            alone.began(node, at: .now)
            try await bed.startNode(node)
        case .upgrade:
            alone.began(upgraded % nodes, at: .now)
            try await bed.upgradeNode(upgraded % nodes)
            upgraded += 1
        case .killEngine:
            try await decideAlone(Array(0..<nodes)) {
                await engine.kill()
                await loop.sleep(for: .seconds(Double.random(in: 0.1...3)))
                try await engine.start()
            }
        case .cutFromEngine:
            try await decideAlone([node]) { try await cut(node, from: .engine) }
        case .cutFromPushServices:
            await bed.services.setNetworkFailing(true)
            try await cut(node, from: .pushServices)
            // TCP may retransmit what was lost only some seconds after the end of the cut.
            await loop.sleep(for: Self.returnTime)
            await bed.services.setNetworkFailing(false)
        }
    }

    private func decideAlone(_ nodes: [Int], while body: () async throws -> Void) async throws {
        let start = MonotonicTime.now
        try await body()
        await loop.sleep(for: Self.returnTime)
        for node in nodes { alone.add(start...MonotonicTime.now, of: node) }
    }

    /// Follows the nodes' logs, which say when they decide alone, until the run is over.
    private func readLogs() async {
        var logs = (0..<nodes).map { LinesOfFile(bed.logFile(of: $0)) }
        var last = MonotonicTime.now
        while true {
            let now = MonotonicTime.now
            for node in logs.indices {
                for line in logs[node].next() { alone.read(line, of: node, since: last, at: now) }
            }
            last = now
            guard !isOver else { return alone.endAll(at: now) }
            await loop.sleep(for: .milliseconds(100))
        }
    }

    private func cut(_ node: Int, from service: NodeNamespaces.Service) async throws {
        try await namespaces?.cut(node, from: service)
        await loop.sleep(for: .seconds(Double.random(in: 3...10)))
        try await namespaces?.heal(node, service)
    }

    // MARK: Senders

    private func work(_ index: Int) async {
        var turn = index
        while !isOver {
            let envelope = source.next([Magic.iOS, .iOSDev, .android][Int.random(in: 0..<3)])
            turn += 1
            let isTwice = turn % 2 == 0
            let start = MonotonicTime.now
            let first = clients[turn % clients.count]
            let second = clients[(turn + 1) % clients.count]
            async let one = submit(envelope, by: first)
            async let other = isTwice ? submit(envelope, by: second) : .delivered
            if isTwice { result.atTwoNodes += 1 }
            for outcome in await [one, other] where outcome != .delivered { result.wrongOutcomes += 1 }
            names.append(envelope.tallyName)
            if bed.tally.isRepeated(envelope.tallyName) {
                repeated.append((envelope.tallyName, start...MonotonicTime.now))
            }
        }
    }

    private func submit(_ envelope: Envelope, by client: TocsinClient) async -> Outcome.Kind? {
        let deadline = MonotonicTime.now + Self.patience
        while true {
            let outcome = try? await client.submit(envelope, timeout: .seconds(60))
            guard outcome == nil || outcome?.kind == .retry, MonotonicTime.now < deadline else { return outcome?.kind }
            result.retries += 1
            await loop.sleep(for: .milliseconds(200))
        }
    }

    /// Submits to one phone, or to invented device tokens, 20 ms after each outcome.
    private func flood(_ index: Int) async {
        if index == 0 {
            await bed.services.set(TestBed.device(.iOS), for: floodedPhone)
            bed.tally.watch(floodedPhone)
        }
        var turn = index
        while !isOver {
            turn += 1
            let envelope = index % 2 == 0 ? floodSource.next(.iOS) : invented.next(.android)
            _ = try? await clients[turn % clients.count].submit(envelope, timeout: .seconds(10))
            await loop.sleep(for: .milliseconds(20))
        }
    }
}

extension Duration {
    fileprivate var seconds: Double { milliseconds / 1000 }
}
