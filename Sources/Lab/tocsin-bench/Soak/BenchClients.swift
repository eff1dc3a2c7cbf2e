// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import EventLoop
import FoundationEssentials
import Glibc
import StandIns
import Synchronization
import TNP
import Time
import Tor

struct BenchClients: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clients", abstract: "Submit envelopes with any client while its preferred node is killed.",
        discussion: """
            Starts a client's test hook (see Docs/clients.md) and two nodes, lets the client submit envelopes to both, \
            and kills the first node (kill -9) at random times. Exits with 0 only if every envelope has exactly one \
            outcome, DELIVERED, all were delivered, and none rang twice except those in flight during a kill. Without \
            kills, it measures the rate and the latency of the client.

            EXAMPLES
              tocsin-bench clients --tor --kills 20 -- .build/release/tocsin-bench hook
              tocsin-bench clients -- python3 Clients/python/tests/hook.py
            """)

    @Option(help: "Number of envelopes.")
    var envelopes = 10_000

    @Option(help: "Number of kills of the first node.")
    var kills = 0

    @Option(help: "Maximum submissions in flight.")
    var inFlight = 50

    @Flag(help: "Through a private Tor network.")
    var tor = false

    @Argument(parsing: .postTerminator, help: "The command that starts the client's test hook.")
    var command: [String]

    func validate() throws {
        guard !command.isEmpty else { throw ValidationError("give the hook's command after --") }
        guard (1...65_000).contains(envelopes) else { throw ValidationError("--envelopes must be 1 to 65000") }
    }

    func run() async throws {
        try await TestBed.run("clients", nodes: 2, more: SimulatedConfiguration.unlimitedRates) { bed in
            var network: PrivateTorNetwork?
            var options = HookOptions(nodes: [])
            if tor {
                let started = try PrivateTorNetwork(on: EventLoop(name: "tor"))
                let access = try await started.start(
                    target: bed.endpoint, virtualPort: 7077,
                    serviceOptions: ["HiddenServicePort 7078 \(bed.endpoint(of: 1))"]
                ) { Terminal.progress($0) }
                guard case .tcp(let onion, _) = access.onion else { return }
                options.nodes = ["\(onion):7077", "\(onion):7078"]
                options.socks = "\(access.socks)"
                network = started
            } else {
                options.nodes = ["\(bed.endpoint(of: 0))", "\(bed.endpoint(of: 1))"]
            }
            let result: ClientResult
            do {
                result = try await ClientRun(
                    bed, options, command: command, envelopes: envelopes, kills: kills, inFlight: inFlight
                ).result()
            } catch {
                await network?.stop()
                throw error
            }
            await network?.stop()
            Terminal.endProgress()
            Terminal.print(result.table)
            guard result.isGood else { throw fail("the client lost, repeated or failed envelopes", .failure) }
        }
    }
}

/// The first line that a hook reads.
struct HookOptions: Encodable {
    var nodes: [String]
    var socks: String?
    var work_limit = 0.0
    var connect_timeout = 60.0
    var is_isolated = false
}

/// The result of a run.
private struct ClientResult {
    var envelopes = 0
    var delivered = 0
    var otherOutcomes: [String: Int] = [:]
    /// Envelopes with a second outcome, or with none.
    var wrongCounts = 0
    var kills = 0
    var seconds = 0.0
    /// Milliseconds from submission to outcome, sorted.
    var latencies: [Double] = []
    var lost = 0
    var sums = Tally.Sums()

    var isGood: Bool {
        delivered == envelopes && wrongCounts == 0 && lost == 0 && sums.unexplained == 0 && sums.otherIDs == 0
            && sums.otherCollapseIDs == 0
    }

    private func percentile(_ part: Double) -> String {
        guard !latencies.isEmpty else { return "-" }
        return Terminal.number(latencies[min(latencies.count - 1, Int(part * Double(latencies.count)))], digits: 1)
    }

    var table: String {
        let others =
            otherOutcomes.isEmpty
            ? "" : " (\(otherOutcomes.map { "\($0.value) \($0.key)" }.joined(separator: ", ")))"
        return """
            envelopes                             \(envelopes)
            kills of the first node               \(kills)
            outcome DELIVERED                     \(delivered)\(others)
            without or with a second outcome      \(wrongCounts)
            lost                                  \(lost)
            repeated, in flight during a kill     \(sums.repeats - sums.unexplained)
            repeated without need                 \(sums.unexplained)
            repeated under another apns-id        \(sums.otherIDs)
            envelopes per second                  \(Terminal.number(Double(envelopes) / seconds, digits: 0))
            latency p50 / p99                     \(percentile(0.5)) / \(percentile(0.99)) ms
            """
    }
}

/// Runs a client's hook and submits envelopes through it, and meanwhile kills the first node repeatedly.
private actor ClientRun {
    private nonisolated let loop = EventLoop(name: "hook")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let bed: TestBed
    private let options: HookOptions
    private let command: [String]
    private let kills: Int
    private let inFlight: Int
    private var source: EnvelopeGenerator
    private var input: Int32 = -1
    private var submitted: [(name: Int, at: MonotonicTime)] = []
    private var outcomes: [Int]
    private var answered = 0
    private var value = ClientResult()
    private var lastReport = MonotonicTime.now

    private struct Command: Encodable {
        let submit: Int
        let magic: String
        let device_token: String
        let iv: String
        let ciphertext: String
        let format = "pipe"
        let timeout = 300.0
    }

    private struct Report: Decodable {
        let id: Int
        let outcome: String?
        let error: String?
    }

    init(
        _ bed: TestBed, _ options: HookOptions, command: [String], envelopes: Int, kills: Int, inFlight: Int
    ) {
        self.bed = bed
        self.options = options
        self.command = command
        self.kills = kills
        self.inFlight = inFlight
        source = EnvelopeGenerator(bed.tokens)
        value.envelopes = envelopes
        outcomes = Array(repeating: 0, count: envelopes)
    }

    func result() async throws -> ClientResult {
        let pipe = "\(bed.directory)/commands"
        guard mkfifo(pipe, 0o600) == 0 else { throw fail("cannot create \(pipe)", .failure) }
        let (lines, continuation) = AsyncStream.makeStream(of: String.self)
        let hook = ChildProcess("/bin/sh", ["-c", "exec \"$@\" < \(pipe)", "sh"] + command) { event in
            switch event {
            case .started: break
            case .line(let line): continuation.yield(line)
            case .terminated: continuation.finish()
            }
        }
        input = await Self.opened(pipe)
        try write(options)
        let started = MonotonicTime.now
        let killer = Task { try await self.killNodes() }
        let pacer = Task { try await self.submitAtPace() }
        let decoder = JSONDecoder()
        for await line in lines {
            guard let report = try? decoder.decode(Report.self, from: Data(line.utf8)) else {
                Terminal.error(line)
                continue
            }
            try take(report)
            if answered == value.envelopes { break }
        }
        // If the program has ended, nothing more is answered.
        if answered < value.envelopes { pacer.cancel() } else { try await pacer.value }
        value.seconds = (lastReport - started).milliseconds / 1000
        try await killer.value
        // Waits for second outcomes, which would come soon after the first ones.
        await loop.sleep(for: .seconds(1))
        close(input)
        await hook.terminate()
        value.wrongCounts = outcomes.count { $0 != 1 }
        value.lost = submitted.count { !bed.tally.has($0.name) }
        value.latencies.sort()
        value.sums = bed.tally.sums
        return value
    }

    /// The length of a run with kills, in seconds per kill.
    private static let secondsPerKill = 2.5

    private func killNodes() async throws {
        while value.kills < kills, answered < value.envelopes {
            await loop.sleep(for: .milliseconds(Int64.random(in: 300...1500)))
            await bed.killNode()
            await loop.sleep(for: .milliseconds(Int64.random(in: 100...1000)))
            try await bed.startNode()
            value.kills += 1
        }
    }

    /// With kills, spreads all envelopes over the time of the kills. Without kills, submits as many at once as may be
    /// in flight; each outcome brings the next one.
    private func submitAtPace() async throws {
        let started = MonotonicTime.now
        while submitted.count < (kills > 0 ? value.envelopes : min(inFlight, value.envelopes)) {
            let part = (MonotonicTime.now - started).milliseconds / 1000 / (Self.secondsPerKill * Double(max(1, kills)))
            let due = kills > 0 ? min(value.envelopes, Int(part * Double(value.envelopes))) : inFlight
            while submitted.count < min(due, value.envelopes), submitted.count - answered < inFlight {
                try submitNext()
            }
            await loop.sleep(for: .milliseconds(5))
            try Task.checkCancellation()
        }
    }

    private func submitNext() throws {
        let number = submitted.count
        // Google's phones only: Apple rejects a second provider token of one key within 20 minutes, and the nodes share
        // their key.
        let envelope = source.next(.android)
        submitted.append((envelope.tallyName, .now))
        try write(
            Command(
                submit: number, magic: envelope.magic.rawValue,
                device_token: String(decoding: envelope.deviceToken, as: UTF8.self), iv: Hex.encode(envelope.iv),
                ciphertext: Hex.encode(envelope.ciphertext)))
    }

    private func take(_ report: Report) throws {
        guard outcomes.indices.contains(report.id), report.id < submitted.count else { return }
        outcomes[report.id] += 1
        guard outcomes[report.id] == 1 else { return }
        answered += 1
        lastReport = .now
        value.latencies.append((lastReport - submitted[report.id].at).milliseconds)
        let name = report.outcome ?? report.error ?? "nothing"
        if name == "delivered" { value.delivered += 1 } else { value.otherOutcomes[name, default: 0] += 1 }
        if answered % 500 == 0 { Terminal.progress("\(answered) of \(value.envelopes), \(value.kills) kills …") }
        if kills == 0, submitted.count < value.envelopes { try submitNext() }
    }

    private func write(_ line: some Encodable) throws {
        let bytes = try JSONEncoder().encode(line) + [UInt8(ascii: "\n")]
        let written = bytes.withUnsafeBytes { Glibc.write(input, $0.baseAddress, $0.count) }
        guard written == bytes.count else { throw fail("the hook does not read its commands", .failure) }
    }

    /// Opens a pipe for writing, which waits for its reader.
    @concurrent
    private static func opened(_ path: String) async -> Int32 { open(path, O_WRONLY) }
}
