// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import StandIns
import TNP
import Time
import TocsinClient

struct BenchCrash: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "crash", abstract: "Kill a node with a spool (kill -9) at random times while senders submit.",
        discussion: """
            Half of the senders leave after QUEUED; the others wait for the final outcome, and resubmit an envelope \
            that has none because of a crash. Exits with 0 only if every queued envelope was delivered, and none rang \
            twice except those in flight during a crash.

            EXAMPLES
              tocsin-bench crash --kills 50
            """)

    @Option(help: "Number of kills.")
    var kills = 20

    @Option(help: "Maximum seconds between two kills.")
    var interval = 2.0

    @Option(help: "Submissions in flight.")
    var inFlight = 200

    func validate() throws {
        guard kills > 0 else { throw ValidationError("--kills must be at least 1") }
    }

    func run() async throws {
        try await TestBed.run("crash", more: SimulatedConfiguration.unlimitedRates + "\n[spool]\nenabled = true") {
            bed in
            let result = try await Crash(bed).run(kills: kills, interval: interval, inFlight: inFlight)
            Terminal.endProgress()
            Terminal.print(result.table)
            guard result.isGood else { throw fail("the node lost or repeated envelopes", .failure) }
        }
    }
}

/// The result of a crash test.
private struct CrashResult {
    var kills = 0
    var queued = 0
    var final = 0
    var wrongOutcomes = 0
    var notSeen = 0
    var secondsToEmpty = 0.0
    var sums = Tally.Sums()

    var isGood: Bool {
        queued > 0 && final > 0 && wrongOutcomes == 0 && notSeen == 0 && sums.unexplained == 0 && sums.otherIDs == 0
            && sums.otherCollapseIDs == 0
    }

    var table: String {
        """
        kills                                 \(kills)
        queued, sender left                   \(queued)
        final outcome awaited                 \(final)
        outcomes other than DELIVERED         \(wrongOutcomes)
        lost                                  \(notSeen)
        repeated, in flight during a crash    \(sums.repeats - sums.unexplained)
        repeated without need                 \(sums.unexplained)
        repeated under another apns-id        \(sums.otherIDs)
        all delivered after the last start in \(Terminal.number(secondsToEmpty, digits: 1)) s
        """
    }
}

/// Senders that submit while the node is killed and restarted.
private actor Crash {
    private nonisolated let loop = EventLoop(name: "senders")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let bed: TestBed
    private let clients: [TocsinClient]
    private var source: EnvelopeGenerator
    private var isOver = false
    private var result = CrashResult()
    private var names: [Int] = []

    init(_ bed: TestBed) {
        self.bed = bed
        let loop = loop
        clients = (0..<8).map { _ in
            TocsinClient(TocsinClient.Options(nodes: [bed.endpoint], patience: .zero, isolatesPhones: false), on: loop)
        }
        source = EnvelopeGenerator(bed.tokens)
    }

    func run(kills: Int, interval: Double, inFlight: Int) async throws -> CrashResult {
        let senders = Task {
            await withTaskGroup { group in
                for index in 0..<inFlight {
                    group.addTask {
                        await self.work(self.clients[index % self.clients.count], leavesWhenQueued: index % 2 == 0)
                    }
                }
            }
        }
        // Slow push services, so that some envelopes are always in flight, and the node stores many of them.
        var slow = Faults()
        slow.latency = .uniform(1...1500)
        for platform in [Device.Platform.apnsProduction, .apnsDevelopment, .fcm] {
            try await bed.services.set(slow, on: platform)
        }
        for kill in 1...kills {
            Terminal.progress("kill \(kill) of \(kills), \(result.queued) queued, \(result.final) final …")
            await loop.sleep(for: .seconds(Double.random(in: 0.2...max(0.3, interval))))
            await bed.killNode()
            try await bed.startNode()
            result.kills += 1
        }
        isOver = true
        let start = MonotonicTime.now
        await senders.value
        for client in clients { await client.close() }
        while MonotonicTime.now - start < .seconds(60), names.contains(where: { !bed.tally.has($0) }) {
            await loop.sleep(for: .milliseconds(100))
        }
        result.secondsToEmpty = (MonotonicTime.now - start).milliseconds / 1000
        result.notSeen = names.count { !bed.tally.has($0) }
        result.sums = bed.tally.sums
        return result
    }

    private func work(_ client: TocsinClient, leavesWhenQueued: Bool) async {
        while !isOver {
            let envelope = source.next([Magic.iOS, .iOSDev, .android][Int.random(in: 0..<3)])
            let outcome = try? await client.submit(
                envelope, timeout: .seconds(60), acceptQueued: true, returnsWhenQueued: leavesWhenQueued)
            switch outcome?.kind {
            case .queued: result.queued += 1
            case .delivered: result.final += 1
            default:
                result.wrongOutcomes += 1
                continue
            }
            names.append(envelope.tallyName)
        }
    }
}
