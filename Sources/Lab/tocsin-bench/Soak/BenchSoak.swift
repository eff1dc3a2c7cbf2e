// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import StandIns
import TNP
import Time
import TocsinClient

struct BenchSoak: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "soak", abstract: "Send many envelopes through a node while the push services misbehave.",
        discussion: """
            A third of the envelopes goes to a push server of Web Push. The stand-ins send GOAWAY at the 500th request of \
            a connection, refuse 1 % of the streams, reduce SETTINGS to one concurrent stream and back, stall, and are killed and restarted. Exits with 0 only if no envelope was lost, none \
            arrived under two apns-ids, and one arrived twice only if the node had received no answer.

            EXAMPLES
              tocsin-bench soak --envelopes 1000000
            """)

    @Option(help: "Total number of envelopes.")
    var envelopes = 100_000

    @Option(help: "Number of sender connections.")
    var connections = 20

    @Option(help: "Submissions in flight per connection.")
    var inFlight = 50

    @Option(help: "Seconds between two faults.")
    var interval = 6.0

    func validate() throws {
        guard min(envelopes, connections, inFlight) > 0 else {
            throw ValidationError("--envelopes, --connections and --in-flight must be at least 1")
        }
    }

    func run() async throws {
        // The short replay window is soon full: memory that still grows after that is a leak.
        try await TestBed.run("soak", more: SimulatedConfiguration.unlimitedRates + "\nreplay_window = 20") { bed in
            let soak = Soak(bed, connections: connections)
            let result = try await soak.run(envelopes: envelopes, inFlight: inFlight, interval: .seconds(interval))
            Terminal.endProgress()
            Terminal.print(result.table)
            guard result.isGood else { throw fail("the node lost or repeated envelopes", .failure) }
        }
    }
}

/// The result of a soak test.
private struct SoakResult {
    var envelopes = 0
    var seconds = 0.0
    var retries = 0
    var wrongOutcomes = 0
    var notSeen = 0
    var sums = Tally.Sums()
    /// The node's resident memory in kilobytes, by the envelopes delivered, in units of 100,000.
    var memory = Trend()

    var isGood: Bool {
        wrongOutcomes == 0 && notSeen == 0 && sums.unexplained == 0 && sums.otherIDs == 0 && sums.otherCollapseIDs == 0
    }

    var table: String {
        """
        envelopes                             \(envelopes) in \(Terminal.number(seconds, digits: 0)) s
        lost                                  \(notSeen)
        outcomes other than DELIVERED         \(wrongOutcomes)
        RETRY, resubmitted by the sender      \(retries)
        repeated, no answer received          \(sums.repeats - sums.unexplained)
        repeated without need                 \(sums.unexplained)
        repeated under another apns-id        \(sums.otherIDs)
        repeated under another collapse id    \(sums.otherCollapseIDs)
        node memory, median                   \(Terminal.number(memory.median / 1024, digits: 0)) MB
        memory growth over the second half    \(Terminal.number(memory.suffix(from: Double(envelopes) / 200_000).slope, digits: 0)) kB per 100 000 envelopes
        """
    }
}

extension Faults {
    /// GOAWAY every 500 requests, and 1 % of the streams refused.
    static let everyday: Faults = {
        var faults = Faults()
        faults.goAwayEvery = 500
        faults.resetPerMille = 10
        faults.resetCodes = [7]
        return faults
    }()
}

/// Senders that resubmit until each envelope is delivered, while faults are injected.
private actor Soak {
    private nonisolated let loop = EventLoop(name: "senders")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let bed: TestBed
    private let clients: [TocsinClient]
    private var source: EnvelopeGenerator
    private var left = 0
    private var done = 0
    private var result = SoakResult()
    private var names: [Int] = []
    private static let platforms = Device.Platform.allCases

    init(_ bed: TestBed, connections: Int) {
        self.bed = bed
        let loop = loop
        clients = (0..<connections).map { _ in
            TocsinClient(TocsinClient.Options(nodes: [bed.endpoint], patience: .zero, isolatesPhones: false), on: loop)
        }
        source = EnvelopeGenerator(bed.tokens)
    }

    func run(envelopes: Int, inFlight: Int, interval: Duration) async throws -> SoakResult {
        left = envelopes
        names.reserveCapacity(envelopes)
        let start = MonotonicTime.now
        let faults = Task { try await self.injectFaults(interval) }
        let watch = Task { await self.watch(of: envelopes) }
        await withTaskGroup { group in
            for client in clients {
                for _ in 0..<inFlight { group.addTask { await self.work(client) } }
            }
        }
        faults.cancel()
        watch.cancel()
        try await faults.value
        for client in clients { await client.close() }
        result.envelopes = envelopes
        result.seconds = (MonotonicTime.now - start).milliseconds / 1000
        result.notSeen = names.count { !bed.tally.has($0) }
        result.sums = bed.tally.sums
        return result
    }

    private func work(_ client: TocsinClient) async {
        while left > 0 {
            left -= 1
            // A third to production, a third by Web Push, and the rest to development and Google.
            let magic = [Magic.iOS, .web, .iOSDev, .iOS, .web, .android][left % 6]
            let envelope = source.next(magic)
            names.append(envelope.tallyName)
            await submit(envelope, by: client)
            done += 1
        }
    }

    private func submit(_ envelope: Envelope, by client: TocsinClient) async {
        while true {
            guard let outcome = try? await client.submit(envelope, timeout: .seconds(120)) else { continue }
            switch outcome.kind {
            case .delivered: return
            case .retry:
                result.retries += 1
                await loop.sleep(for: .milliseconds(Int64(min(outcome.retryAfter, 3000))))
            default:
                result.wrongOutcomes += 1
                return
            }
        }
    }

    /// Injects the permanent faults, and others in turn, until the task is cancelled. Ends without faults.
    private func injectFaults(_ interval: Duration) async throws {
        var usual = Faults.everyday
        var round = 0
        while !Task.isCancelled {
            usual.goAwayIsEarly = round % 2 == 1
            for platform in Self.platforms { try await bed.services.set(usual, on: platform) }
            await loop.sleep(for: interval)
            if Task.isCancelled { break }
            let platform = Self.platforms[round / 4 % Self.platforms.count]
            var trouble = usual
            switch round % 4 {
            case 0: trouble.concurrentStreams = 1
            case 1: trouble.stalls = true
            case 2:
                await bed.services.kill(platform)
                await loop.sleep(for: .milliseconds(500))
                try await bed.services.restart(platform)
            default: trouble.closePerMille = 20
            }
            try await bed.services.set(trouble, on: platform)
            await loop.sleep(for: .seconds(1))
            round += 1
        }
        for platform in Self.platforms { try await bed.services.set(Faults(), on: platform) }
    }

    private func watch(of envelopes: Int) async {
        while !Task.isCancelled {
            let kilobytes = await bed.nodeKilobytes
            result.memory.add(Double(kilobytes), at: Double(done) / 100_000)
            Terminal.progress(
                "\(done) of \(envelopes) delivered, \(result.retries) resubmitted, \(kilobytes / 1024) MB …")
            await loop.sleep(for: .seconds(1))
        }
    }
}
