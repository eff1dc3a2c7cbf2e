// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import StandIns
import TNP
import Time
import TocsinClient

struct BenchBulkhead: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bulkhead",
        abstract: "Measure the latency of each push service before and while one is a black hole.",
        discussion: """
            Sends in an open loop to Apple's production and development environments and to Google, first undisturbed, \
            then while production reads every byte and never answers.

            EXAMPLES
              tocsin-bench bulkhead --rate 300 --seconds 20
            """)

    @Option(help: "Envelopes per second to each service.")
    var rate = 200.0

    @Option(help: "Seconds per phase.")
    var seconds = 15.0

    func run() async throws {
        try await TestBed.run("bulkhead", more: SimulatedConfiguration.unlimitedRates) { bed in
            let load = BulkheadLoad(bed)
            _ = await load.run(rate: rate, seconds: 2)
            Terminal.progress("calm …")
            let calm = await load.run(rate: rate, seconds: seconds)
            Terminal.progress("production is a black hole …")
            var hole = Faults()
            hole.isBlackHole = true
            try await bed.services.set(hole, on: .apnsProduction)
            let during = await load.run(rate: rate, seconds: seconds)
            Terminal.endProgress()
            Terminal.print(Self.table(calm, during))
        }
    }

    private static func table(_ calm: [Magic: LaneStatistics], _ during: [Magic: LaneStatistics]) -> String {
        func cell(_ value: Double) -> String {
            Terminal.padded(Terminal.number(value / 1000, digits: 1), 9, right: true)
        }
        func row(_ magic: Magic, _ when: String, _ figures: LaneStatistics) -> String {
            Terminal.padded("\(magic.rawValue), \(when)", 30) + cell(figures.latencies.p50)
                + cell(figures.latencies.p99)
                + Terminal.padded("\(figures.delivered)", 11, right: true)
                + Terminal.padded("\(figures.other)", 9, right: true)
        }
        var lines = [
            Terminal.padded("", 30) + Terminal.padded("p50 ms", 9, right: true)
                + Terminal.padded("p99 ms", 9, right: true) + Terminal.padded("delivered", 11, right: true)
                + Terminal.padded("RETRY", 9, right: true)
        ]
        for magic in [Magic.iOSDev, .android, .iOS] {
            lines.append(row(magic, "undisturbed", calm[magic] ?? LaneStatistics()))
            lines.append(row(magic, "iOS a black hole", during[magic] ?? LaneStatistics()))
        }
        return lines.joined(separator: "\n")
    }
}

/// The results of one push service in one phase.
private struct LaneStatistics {
    var latencies = Latencies()
    var delivered = 0
    var other = 0
}

/// Senders for each push service.
private actor BulkheadLoad {
    private nonisolated let loop = EventLoop(name: "senders")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private var source: EnvelopeGenerator
    private let clients: [Magic: [TocsinClient]]
    private var figures: [Magic: LaneStatistics] = [:]

    init(_ bed: TestBed) {
        source = EnvelopeGenerator(bed.tokens)
        var clients: [Magic: [TocsinClient]] = [:]
        for magic in Magic.appleAndGoogle {
            // Enough connections that none reaches its limits: the node is under test, not a single sender.
            clients[magic] = (0..<100).map { [loop] _ in
                TocsinClient(
                    TocsinClient.Options(nodes: [bed.endpoint], patience: .zero, isolatesPhones: false), on: loop)
            }
        }
        self.clients = clients
    }

    func run(rate: Double, seconds: Double) async -> [Magic: LaneStatistics] {
        figures = [:]
        await withTaskGroup { group in
            for magic in Magic.appleAndGoogle {
                group.addTask { await self.openLoop(magic, count: Int(rate * seconds), rate: rate) }
            }
        }
        return figures
    }

    private func openLoop(_ magic: Magic, count: Int, rate: Double) async {
        let start = MonotonicTime.now
        await withTaskGroup { group in
            for index in 0..<count {
                let due = start + .seconds(Double(index) / rate)
                let wait = due - .now
                if wait > .milliseconds(1) { await loop.sleep(for: wait) }
                group.addTask { await self.submit(magic, index, since: due) }
            }
        }
    }

    private func submit(_ magic: Magic, _ index: Int, since due: MonotonicTime) async {
        guard let list = clients[magic] else { return }
        let outcome = try? await list[index % list.count].submit(source.next(magic), timeout: .seconds(60))
        var lane = figures[magic] ?? LaneStatistics()
        lane.latencies.record(MonotonicTime.now - due)
        if outcome?.kind == .delivered { lane.delivered += 1 } else { lane.other += 1 }
        figures[magic] = lane
    }
}
