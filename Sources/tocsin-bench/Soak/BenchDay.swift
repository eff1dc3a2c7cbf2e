// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import FoundationEssentials
import Glibc
import Simulator
import Synchronization
import TNP
import Time
import TocsinClient

struct BenchDay: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "day",
        abstract: "Send at a steady rate through tor for hours, and fit the slopes of the node's figures.",
        discussion: """
            The node serves an onion of a private Tor network with its own tor. The stand-ins for the push services have \
            the usual faults of soak all the time. At even intervals, of five minutes or more, something happens: the \
            node reloads, its tor is killed, or a push service restarts. The node itself restarts after an eighth of the \
            time, and is killed after a quarter. One envelope a second goes past tor, and shows the node's own latency. \
            The slopes are those of the last five eighths, or from twelve minutes after the kill on. Exits with 0 only \
            if no envelope was lost, none was repeated without need, and memory, descriptors and latency do not grow.

            EXAMPLES
              tocsin-bench day --duration 6h
              tocsin-bench day --duration 20m --rate 50 --samples day.csv
            """)

    @Option(help: "How long, at least 20m, e.g. 6h.")
    var duration: RunTime = RunTime(.seconds(6 * 3600))

    @Option(help: "Envelopes per second.")
    var rate = 20

    @Option(
        help:
            "A new file for a line every ten seconds: seconds, kB of memory, descriptors, latency in ms past and through tor."
    )
    var samples: String?

    func validate() throws {
        guard duration.value >= DayResult.shortest else { throw ValidationError("--duration must be at least 20m") }
    }

    func run() async throws {
        OpenFiles.raiseLimit()
        let network = try PrivateTorNetwork(on: EventLoop(name: "tor"))
        let directory = URL.temporaryDirectory.appending(path: "tocsin-day-tor-\(getpid())").path()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let access = try await network.start(target: .unix(path: "/none"), virtualPort: 7077) { Terminal.progress($0) }
        do {
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
            try await network.writeMemberProgram(to: "\(directory)/tor")
            let surroundings = TestBed.Surroundings(tor: "managed = true\nbinary = \"\(directory)/tor\"")
            let tables = SimulatedConfiguration.unlimitedRates + "\n[spool]\nenabled = true"
            try await TestBed.run("day", more: tables, surroundings: surroundings) { bed in
                let result = try await Day(bed, through: access.socks, rate: rate, samples).run(for: duration.value)
                Terminal.endProgress()
                Terminal.print(result.table)
                let broken = result.violations
                guard broken.isEmpty else { throw fail(broken.joined(separator: "; "), .failure) }
            }
        } catch {
            await network.stop()
            throw error
        }
        await network.stop()
    }
}

/// A time on the command line: `90s`, `20m`, `6h`.
struct RunTime: ExpressibleByArgument, CustomStringConvertible {
    let value: Duration

    init(_ value: Duration) { self.value = value }

    init?(argument: String) {
        let factors: [Character: Int] = ["s": 1, "m": 60, "h": 3600]
        guard let factor = argument.last.flatMap({ factors[$0] }), let number = Int(argument.dropLast()), number > 0
        else { return nil }
        value = .seconds(number * factor)
    }

    var description: String { "\(value.components.seconds)s" }
}

/// The figures of a day.
struct DayResult {
    /// What happens to the node and its surroundings.
    enum Event: String, CaseIterable {
        case reload = "reloads of the node"
        case torKill = "kills of its tor"
        case restartOfPushService = "restarts of a push service"
        case restart = "restarts of the node"
        case kill = "kills of the node"
    }

    var duration = Duration.zero
    var submitted = 0
    var resubmitted = 0
    var wrongOutcomes = 0
    var notSeen = 0
    var sums = Tally.Sums()
    var events: [Event: Int] = [:]
    /// Anonymous memory in kilobytes, open descriptors, and median latencies in milliseconds, by hours.
    var memory = Trend()
    var descriptors = Trend()
    /// Without tor, whose circuits differ by 40 ms in a network of five relays.
    var latency = Trend()
    var latencyThroughTor = Trend()
    var memoryOfTor = Trend()

    /// How long a node's memory grows with its replay window (`limits.replay_window`), and a little longer.
    static let settlingTime = Duration.seconds(720)
    /// Too short for slopes.
    static let shortest = Duration.seconds(1200)

    /// In hours. The node runs from a quarter of the time on.
    private var settled: Double {
        max(duration * 3 / 8, duration / 4 + Self.settlingTime).milliseconds / 3_600_000
    }

    private static let mostMemory = (kilobytes: 512.0, share: 0.05)
    private static let mostDescriptors = 2.0
    private static let mostLatency = 0.1

    /// The rules that do not hold.
    var violations: [String] {
        var broken: [String] = []
        if notSeen > 0 { broken.append("\(notSeen) envelopes were lost") }
        if wrongOutcomes > 0 { broken.append("\(wrongOutcomes) envelopes were rejected") }
        if sums.unexplained > 0 { broken.append("\(sums.unexplained) notifications were repeated without need") }
        let (memory, descriptors, latency) = (
            memory.suffix(from: settled), descriptors.suffix(from: settled), latency.suffix(from: settled)
        )
        if memory.growth > max(Self.mostMemory.kilobytes, memory.median * Self.mostMemory.share) {
            broken.append("the node's memory grows")
        }
        if descriptors.growth > Self.mostDescriptors { broken.append("the number of descriptors grows") }
        if latency.growth > latency.median * Self.mostLatency { broken.append("the latency grows") }
        return broken
    }

    var table: String {
        let happened = Event.allCases.map { "\(events[$0] ?? 0) \($0.rawValue)" }.joined(separator: ", ")
        func row(_ name: String, _ trend: Trend, _ unit: String, digits: Int = 0) -> String {
            let trend = trend.suffix(from: settled)
            let figures = [trend.median, trend.slope, trend.growth].map { Terminal.number($0, digits: digits) }
            return Terminal.padded(name, 38)
                + "median \(figures[0]) \(unit), slope \(figures[1]) an hour, last third - first third \(figures[2])"
        }
        return """
            envelopes                             \(submitted) in \(duration.components.seconds) s
            on the way                            \(happened)
            lost                                  \(notSeen)
            rejected                              \(wrongOutcomes)
            resubmitted by the sender             \(resubmitted)
            repeated, no answer received          \(sums.repeats - sums.unexplained)
            repeated without need                 \(sums.unexplained)
            \(row("node's anonymous memory", memory, "kB"))
            \(row("its tor's", memoryOfTor, "kB"))
            \(row("node's descriptors", descriptors, ""))
            \(row("latency of the node", latency, "ms", digits: 2))
            \(row("latency through tor", latencyThroughTor, "ms", digits: 1))
            """
    }
}

/// Senders at a steady rate, and what happens on the way.
private actor Day {
    /// How long a sender submits an envelope again. tor's clients need a minute after the loss of an onion's circuits.
    private static let patience = Duration.seconds(300)
    private static let answerTime = Duration.seconds(60)
    private static let sampleInterval = Duration.seconds(10)
    /// At most so often something happens, and so many times: tor restarts at once only after ten quiet minutes.
    private static let shortestPause = Duration.seconds(300)
    private static let mostEvents = 40
    /// Latency counts again so long after something has happened.
    private static let quietTime = Duration.seconds(30)
    private static let clients = 10

    private nonisolated let loop = EventLoop(name: "senders")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let bed: TestBed
    private let rate: Int
    private let socks: Endpoint
    /// The descriptor of the file for samples; `nil` if there is none.
    private let samples: Int32?
    private var clients: [TocsinClient] = []
    /// For one envelope a second, which goes past tor.
    private let relay: CircuitRelay
    private let relayEndpoint: Endpoint
    private var source: EnvelopeGenerator
    private var names: [Int] = []
    private var waiting = 0
    private var latencies: [Double] = []
    private var latenciesThroughTor: [Double] = []
    private var quietSince = MonotonicTime.now
    private var result = DayResult()

    /// - Parameter file: for the samples.
    init(_ bed: TestBed, through socks: Endpoint, rate: Int, _ file: String?) throws {
        samples = file.map { open($0, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644) }
        if let file, let samples, samples < 0 {
            throw fail("cannot create \(file): \(String(cString: strerror(errno)))", .failure)
        }
        self.bed = bed
        self.socks = socks
        self.rate = rate
        relayEndpoint = .unix(path: "\(bed.directory)/relay.sock")
        // Far from the numbers that tor gives.
        relay = CircuitRelay(by: .direct(bed.endpoint), circuits: TorCircuits(after: 1 << 31), on: loop)
        source = EnvelopeGenerator(bed.tokens)
    }

    func run(for duration: Duration) async throws -> DayResult {
        let onion = try await reachableOnion()
        clients = (0..<Self.clients).map { _ in
            TocsinClient(
                TocsinClient.Options(
                    nodes: [onion], proxy: .socks5(socks, nil), patience: .zero, isolatesPhones: false),
                on: loop)
        }
        try await relay.listen(at: relayEndpoint)
        let neighbour = TocsinClient(
            TocsinClient.Options(nodes: [relayEndpoint], patience: .zero, isolatesPhones: false), on: loop)
        let start = MonotonicTime.now
        let sampling = Task { await self.sample(since: start) }
        let happening = Task { try await self.letThingsHappen(in: duration, since: start) }
        await withTaskGroup { group in
            let tick = Duration.milliseconds(1000) / rate
            var next = start
            while next - start < duration {
                let envelope = self.nextEnvelope()
                let number = self.names.count
                let isThroughTor = number % self.rate != 0
                let client = isThroughTor ? self.clients[number % self.clients.count] : neighbour
                group.addTask { await self.deliver(envelope, by: client, isThroughTor: isThroughTor) }
                next = next + tick
                await self.loop.sleep(for: max(.zero, next - .now))
            }
        }
        try await happening.value
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

    private func reachableOnion() async throws -> Endpoint {
        let deadline = MonotonicTime.now + .seconds(120)
        while MonotonicTime.now < deadline {
            Terminal.progress("waiting for the node's onion …")
            if let onion = await bed.onion(of: 0),
                let stream = try? await loop.dial(onion, through: .socks5(socks, nil), timeout: .seconds(20))
            {
                stream.close()
                return onion
            }
            await loop.sleep(for: .milliseconds(500))
        }
        throw fail("the node's onion cannot be reached", .failure)
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
        let events = min(Self.mostEvents, max(8, Int(duration / Self.shortestPause)))
        for number in 1..<events {
            await loop.sleep(for: max(.zero, start + duration * number / events - .now))
            let event: DayResult.Event =
                switch number {
                case events / 8: .restart
                case events / 4: .kill
                default: [.reload, .torKill, .restartOfPushService][number % 3]
                }
            try await happen(event, number)
            quietSince = .now
            result.events[event, default: 0] += 1
        }
    }

    private func happen(_ event: DayResult.Event, _ number: Int) async throws {
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
            let (memory, descriptors) = (Self.anonymousKilobytes(of: node), Self.descriptors(of: node))
            result.memory.add(memory, at: hours)
            result.descriptors.add(descriptors, at: hours)
            if let tor = ProcessUsage.children(of: node, named: "tor").first {
                result.memoryOfTor.add(Self.anonymousKilobytes(of: tor), at: hours)
            }
            let text = Self.median(of: &latencies, in: &result.latency, at: hours)
            let textThroughTor = Self.median(of: &latenciesThroughTor, in: &result.latencyThroughTor, at: hours)
            let line =
                "\(time.components.seconds),\(Int(memory)),\(Int(descriptors)),\(text),\(textThroughTor)\n"
            if let samples { _ = write(samples, line, line.utf8.count) }
            Terminal.progress(
                "\(time.components.seconds) s, \(names.count) submitted, \(waiting) waiting, \(Int(memory)) kB, \(text) ms …"
            )
        }
    }

    /// Adds the median of some figures to a trend and removes them.
    /// - Returns: the median as text; empty if there are no figures.
    private static func median(of figures: inout [Double], in trend: inout Trend, at hours: Double) -> String {
        defer { figures = [] }
        guard !figures.isEmpty else { return "" }
        let median = figures.sorted()[figures.count / 2]
        trend.add(median, at: hours)
        return Terminal.number(median, digits: 2)
    }

    private static func anonymousKilobytes(of pid: pid_t) -> Double {
        let text = FileManager.default.contents(atPath: "/proc/\(pid)/status").map {
            String(decoding: $0, as: UTF8.self)
        }
        let line = text?.split(separator: "\n").first { $0.hasPrefix("RssAnon:") }
        return line.flatMap { Double($0.filter(\.isNumber)) } ?? 0
    }

    private static func descriptors(of pid: pid_t) -> Double {
        Double((try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/fd").count) ?? 0)
    }
}
