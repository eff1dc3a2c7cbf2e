// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import Simulator
import TNP
import Time
import TocsinClient

struct BenchSoak: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "soak", abstract: "Many envelopes through a node while Apple and Google misbehave.",
        discussion: """
            GOAWAY every 500 requests, 1 % of the streams refused, SETTINGS that drop to one stream and come back, stalls,
            services that are killed and started again. Ends with 0 only if nothing was lost, no envelope came under two
            apns-ids, and what came twice is what the node had no answer for.

            EXAMPLES
              tocsin bench soak --envelopes 1000000
            """)

    @Option(help: "Envelopes in all.")
    var envelopes = 100_000

    @Option(help: "Connections of senders.")
    var connections = 20

    @Option(help: "Submissions in flight on each.")
    var inFlight = 50

    @Option(help: "Seconds between one trouble and the next.")
    var interval = 6.0

    func run() async throws {
        // A replay window that is full soon, so that memory that still grows is a leak.
        try await TestBed.run("soak", more: SimulatedConfiguration.openGates + "\nreplay_window = 20") { bed in
            let soak = Soak(bed, connections: connections)
            let result = try await soak.run(envelopes: envelopes, inFlight: inFlight, interval: .seconds(interval))
            Terminal.endProgress()
            Terminal.print(result.table)
            guard result.isGood else { throw fail("the node has lost or repeated envelopes", ExitStatus.failure) }
        }
    }
}

/// What a soak came to.
private struct SoakResult {
    var envelopes = 0
    var seconds = 0.0
    var retries = 0
    var wrongOutcomes = 0
    var notSeen = 0
    var sums = Tally.Sums()
    var memory: [(envelopes: Int, kilobytes: Int)] = []

    var isGood: Bool {
        wrongOutcomes == 0 && notSeen == 0 && sums.unexplained == 0 && sums.secondIDs == 0 && sums.otherCollapseIDs == 0
    }

    /// Kilobytes by which memory grows with 100 000 envelopes, over the second half: a line by least squares.
    var slope: Double {
        let half = memory.suffix(memory.count / 2)
        guard half.count > 2 else { return 0 }
        let meanX = half.map { Double($0.envelopes) }.reduce(0, +) / Double(half.count)
        let meanY = half.map { Double($0.kilobytes) }.reduce(0, +) / Double(half.count)
        var (above, below) = (0.0, 0.0)
        for point in half {
            above += (Double(point.envelopes) - meanX) * (Double(point.kilobytes) - meanY)
            below += (Double(point.envelopes) - meanX) * (Double(point.envelopes) - meanX)
        }
        return below == 0 ? 0 : above / below * 100_000
    }

    var table: String {
        """
        envelopes                             \(envelopes) in \(Terminal.number(seconds, digits: 0)) s
        lost                                  \(notSeen)
        outcomes other than DELIVERED         \(wrongOutcomes)
        RETRY, sent again by the sender       \(retries)
        came again, their fate unknown        \(sums.repeats - sums.unexplained)
        came again without need               \(sums.unexplained)
        under a second apns-id                \(sums.secondIDs)
        under another collapse id             \(sums.otherCollapseIDs)
        memory of the node, first and last    \((memory.first?.kilobytes ?? 0) / 1024) MB, \((memory.last?.kilobytes ?? 0) / 1024) MB
        its slope over the second half        \(Terminal.number(slope, digits: 0)) kB for 100 000 envelopes
        """
    }
}

/// Senders that go on until each envelope is delivered, and the weather meanwhile.
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
    private static let platforms: [Device.Platform] = [.apnsProduction, .apnsDevelopment, .fcm]

    init(_ bed: TestBed, connections: Int) {
        self.bed = bed
        let loop = loop
        clients = (0..<connections).map { _ in TocsinClient(TocsinClient.Options(node: bed.endpoint), on: loop) }
        source = EnvelopeGenerator(bed.tokens)
    }

    func run(envelopes: Int, inFlight: Int, interval: Duration) async throws -> SoakResult {
        left = envelopes
        names.reserveCapacity(envelopes)
        let start = MonotonicTime.now
        let weather = Task { try await self.weather(interval) }
        let watch = Task { await self.watch(of: envelopes) }
        await withTaskGroup { group in
            for client in clients {
                for _ in 0..<inFlight { group.addTask { await self.work(client) } }
            }
        }
        weather.cancel()
        watch.cancel()
        try await weather.value
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
            // Six to production, two to development, two to Google.
            let magic = [Magic.iOS, .iOS, .iOS, .iOSDev, .android][left % 5]
            let envelope = source.next(magic)
            names.append(envelope.tallyName)
            await submit(envelope, by: client)
            done += 1
        }
    }

    private func submit(_ envelope: Envelope, by client: TocsinClient) async {
        while true {
            guard let outcome = try? await client.submit(envelope, patience: .seconds(120)) else { continue }
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

    /// The trouble that is always there, and on top of it one after the other.
    private func weather(_ interval: Duration) async throws {
        var usual = Faults()
        usual.goAwayEvery = 500
        usual.resetPerMille = 10
        usual.resetCodes = [7]
        var round = 0
        while !Task.isCancelled {
            usual.goAwayIsEarly = round % 2 == 1
            for platform in Self.platforms { try await bed.services.set(usual, on: platform) }
            await loop.sleep(for: interval)
            if Task.isCancelled { break }
            let platform = Self.platforms[round / 4 % 3]
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
            result.memory.append((done, kilobytes))
            Terminal.progress(
                "\(done) of \(envelopes) delivered, \(result.retries) sent again, \(kilobytes / 1024) MB …")
            await loop.sleep(for: .seconds(1))
        }
    }
}
