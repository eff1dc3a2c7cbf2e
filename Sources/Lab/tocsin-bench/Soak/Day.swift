// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import Glibc
import StandIns
import TNP
import Time
import TocsinClient

/// Senders at a steady rate, and the events that disturb the node meanwhile.
actor Day {
    /// How long a sender resubmits an envelope. After the loss of an onion's circuits, tor's clients need a minute.
    private static let patience = Duration.seconds(300)
    private static let answerTime = Duration.seconds(60)
    private static let sampleInterval = Duration.seconds(10)
    /// How long after the end of an event the latency counts again.
    private static let quietTime = Duration.seconds(30)
    private static let clientCount = 10

    private nonisolated let loop = EventLoop(name: "senders")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let bed: TestBed
    private let rate: Int
    private let socks: Endpoint
    /// The descriptor of the file for samples; `nil` if there is none.
    private let samples: Int32?
    /// The route of one envelope a second, which bypasses tor.
    private let relay: CircuitRelay
    private let relayEndpoint: Endpoint
    private var source: EnvelopeGenerator
    private var names: [Int] = []
    private var waiting = 0
    private var latencies: [Double] = []
    private var latenciesThroughTor: [Double] = []
    private var quietSince = MonotonicTime.now
    private var result = DayResult()

    /// - Parameter file: the file for the samples; `nil` for none.
    init(_ bed: TestBed, through socks: Endpoint, rate: Int, _ file: String?) throws {
        samples = file.map { open($0, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644) }
        if let file, let samples, samples < 0 {
            throw fail("cannot create \(file): \(String(cString: strerror(errno)))", .failure)
        }
        self.bed = bed
        self.socks = socks
        self.rate = rate
        relayEndpoint = .unix(path: "\(bed.directory)/relay.sock")
        // These numbers are far from those by which the node's tor names circuits.
        relay = CircuitRelay(by: .direct(bed.endpoint), circuits: TorCircuits(after: 1 << 31), on: loop)
        source = EnvelopeGenerator(bed.tokens)
    }

    func run(for duration: Duration) async throws -> DayResult {
        Terminal.progress("waiting for the node's onion …")
        let proxy = Proxy.socks5(socks, nil)
        let onion = try await bed.reachableOnion(through: proxy)
        let clients = (0..<Self.clientCount).map { _ in client(of: onion, through: proxy) }
        try await relay.listen(at: relayEndpoint)
        let neighbour = client(of: relayEndpoint, through: nil)
        defer { samples.map { _ = close($0) } }
        let start = MonotonicTime.now
        let sampling = Task { await self.sample(since: start) }
        let happening = Task { try await self.letThingsHappen(in: duration, since: start) }
        await withDiscardingTaskGroup { group in
            let tick = Duration.milliseconds(1000) / rate
            var next = start
            while next - start < duration {
                let envelope = nextEnvelope()
                let isThroughTor = names.count % rate != 0
                let client = isThroughTor ? clients[names.count % clients.count] : neighbour
                group.addTask { await self.deliver(envelope, by: client, isThroughTor: isThroughTor) }
                next = next + tick
                await loop.sleep(for: max(.zero, next - .now))
            }
        }
        try await happening.value
        await waitForStored()
        sampling.cancel()
        await sampling.value
        for client in clients + [neighbour] { await client.close() }
        await relay.close()
        result.duration = MonotonicTime.now - start
        result.submitted = names.count
        result.notSeen = names.count { !bed.tally.has($0) }
        result.sums = bed.tally.sums
        return result
    }

    private func client(of node: Endpoint, through proxy: Proxy?) -> TocsinClient {
        TocsinClient(
            TocsinClient.Options(nodes: [node], proxy: proxy, patience: .zero, isolatesPhones: false), on: loop)
    }

    /// Waits until the node has delivered what it has stored, for ``patience`` at most.
    private func waitForStored() async {
        let deadline = MonotonicTime.now + Self.patience
        while MonotonicTime.now < deadline, !names.allSatisfy({ bed.tally.has($0) }) {
            await loop.sleep(for: .seconds(1))
        }
    }

    // MARK: Senders

    private func nextEnvelope() -> Envelope {
        let envelope = source.next([Magic.iOS, .web, .iOSDev, .android][names.count % 4])
        names.append(envelope.tallyName)
        return envelope
    }

    private func deliver(_ envelope: Envelope, by client: TocsinClient, isThroughTor: Bool) async {
        waiting += 1
        defer { waiting -= 1 }
        let start = MonotonicTime.now
        while true {
            let outcome = try? await client.submit(envelope, timeout: Self.answerTime)
            switch outcome?.kind {
            case .delivered?, .queued?:
                guard start - quietSince > Self.quietTime else { return }
                let time = (MonotonicTime.now - start).milliseconds
                if isThroughTor { latenciesThroughTor.append(time) } else { latencies.append(time) }
                return
            case .retry?, nil:
                guard MonotonicTime.now - start < Self.patience else {
                    result.wrongOutcomes += 1
                    return
                }
                result.resubmitted += 1
                await loop.sleep(for: .milliseconds(Int64(min(max(outcome?.retryAfter ?? 0, 500), 3000))))
            case .rejected?, .gone?:
                result.wrongOutcomes += 1
                return
            }
        }
    }

    // MARK: What happens

    private func letThingsHappen(in duration: Duration, since start: MonotonicTime) async throws {
        for platform in Device.Platform.allCases { try await bed.services.set(.everyday, on: platform) }
        let plan = DayEvent.plan(for: duration)
        for (number, event) in plan.enumerated() {
            await loop.sleep(for: max(.zero, start + duration * (number + 1) / (plan.count + 1) - .now))
            try await happen(event, number)
            quietSince = .now
            result.events[event, default: 0] += 1
        }
    }

    private func happen(_ event: DayEvent, _ number: Int) async throws {
        switch event {
        case .reload: if let node = await bed.nodePID { Glibc.kill(node, SIGHUP) }
        case .torKill:
            guard let node = await bed.nodePID else { return }
            for tor in ProcessUsage.children(of: node, named: "tor") { Glibc.kill(tor, SIGKILL) }
        case .restartOfPushService:
            let platform = Device.Platform.allCases[number / 3 % Device.Platform.allCases.count]
            await bed.services.kill(platform)
            await loop.sleep(for: .seconds(2))
            try await bed.services.restart(platform)
            try await bed.services.set(.everyday, on: platform)
        case .restart: try await bed.restartNode()
        case .kill:
            await bed.killNode()
            try await bed.startNode()
        }
    }

    // MARK: Figures

    private func sample(since start: MonotonicTime) async {
        while !Task.isCancelled {
            await loop.sleep(for: Self.sampleInterval)
            let time = MonotonicTime.now - start
            let hours = time.milliseconds / 3_600_000
            guard let node = await bed.nodePID else { continue }
            let (memory, descriptors) = (ProcessUsage.anonymousKilobytes(of: node), ProcessUsage.descriptors(of: node))
            result.memory.add(Double(memory), at: hours)
            result.descriptors.add(Double(descriptors), at: hours)
            if let tor = ProcessUsage.children(of: node, named: "tor").first {
                result.memoryOfTor.add(Double(ProcessUsage.anonymousKilobytes(of: tor)), at: hours)
            }
            let text = Self.median(of: &latencies, in: &result.latency, at: hours)
            let textThroughTor = Self.median(of: &latenciesThroughTor, in: &result.latencyThroughTor, at: hours)
            let line =
                "\(time.components.seconds),\(memory),\(descriptors),\(text),\(textThroughTor)\n"
            if let samples { _ = write(samples, line, line.utf8.count) }
            Terminal.progress(
                "\(time.components.seconds) s, \(names.count) submitted, \(waiting) waiting, \(memory) kB, \(text) ms …"
            )
        }
    }

    /// Adds the median of some figures to a trend, and removes the figures.
    /// - Returns: the median as text; empty if there are no figures.
    private static func median(of figures: inout [Double], in trend: inout Trend, at hours: Double) -> String {
        defer { figures = [] }
        guard !figures.isEmpty else { return "" }
        let median = figures.sorted()[figures.count / 2]
        trend.add(median, at: hours)
        return Terminal.number(median, digits: 2)
    }
}
