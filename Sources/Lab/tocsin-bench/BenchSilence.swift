// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import StandIns
import TNP
import Time
import TocsinClient

struct BenchSilence: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "silence", abstract: "Test that honest senders are served despite silent connections.",
        discussion: """
            Opens --silent connections to both endpoints over --seconds and sends nothing on them, while honest \
            senders open new connections to each endpoint. Tests four nodes in turn: with limits.connections of 500, \
            1100 and 10000, and with 1024 open files.

            With --check it exits with 0 only if every honest sender was served.

            EXAMPLES
              tocsin-bench silence --check
              tocsin-bench silence --silent 20000 --seconds 2
            """)

    @Option(help: "Number of silent connections, 1 to 1000000.")
    var silent = 100_000

    @Option(help: "Seconds per node, 1 to 600.")
    var seconds = 60

    @Option(help: "Honest senders per endpoint, 1 to 200.")
    var honest = 20

    @Flag(help: "Exit with 1 if an honest sender was not served.")
    var check = false

    func validate() throws {
        guard (1...1_000_000).contains(silent) else {
            throw ValidationError("--silent must be 1 to 1000000, not \(silent)")
        }
        guard (1...600).contains(seconds) else { throw ValidationError("--seconds must be 1 to 600, not \(seconds)") }
        guard (1...200).contains(honest) else { throw ValidationError("--honest must be 1 to 200, not \(honest)") }
    }

    /// A node to test.
    private struct Candidate {
        let title: String
        let connections: Int
        var descriptors: Int?
    }

    private static let candidates = [
        Candidate(title: "connections = 500", connections: 500),
        Candidate(title: "connections = 1100", connections: 1100),
        Candidate(title: "connections = 10000", connections: 10_000),
        Candidate(title: "1024 open files", connections: 10_000, descriptors: 1024),
    ]

    func run() async throws {
        OpenFiles.raiseLimit()
        Terminal.print(
            Self.line("", ["silent", "held at the end", "TNP served", "HTTP served", "slowest ms", "node CPU s"]))
        var isComplete = true
        for candidate in Self.candidates {
            Terminal.progress("\(candidate.title) …")
            try await TestBed.run(
                "silence", more: "[limits]\nconnections = \(candidate.connections)", servesHTTP: true,
                descriptors: candidate.descriptors
            ) { bed in
                let meter = UsageMeter([await bed.nodePID].compactMap(\.self))
                async let crowd = SilentCrowd(bed).connect(silent, within: .seconds(seconds))
                let served = await HonestClients(bed).run(honest, within: .seconds(seconds))
                let (opened, held) = await crowd
                let used = meter.usage.first?.cpuSeconds ?? 0
                Terminal.endProgress()
                Terminal.print(
                    Self.line(
                        candidate.title,
                        [
                            "\(opened)", "\(held)", "\(served.tnp) of \(honest)", "\(served.http) of \(honest)",
                            Terminal.number(served.slowest.milliseconds, digits: 1), Terminal.number(used, digits: 1),
                        ]))
                isComplete = isComplete && served.tnp == honest && served.http == honest
            }
        }
        if check, !isComplete { throw fail("not all honest senders were served", .failure) }
    }

    private static func line(_ title: String, _ cells: [String]) -> String {
        Terminal.padded(title, 22) + cells.map { Terminal.padded($0, 16, right: true) }.joined()
    }
}

/// Opens connections and sends nothing on them. Each stays until the node closes it or the run ends.
private actor SilentCrowd: ByteStreamHandler {
    private nonisolated let loop = EventLoop(name: "silent")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let endpoints: [Endpoint]
    private var held: [ObjectIdentifier: ByteStream] = [:]

    /// The pause after a failed attempt to connect, as when the node's backlog is full.
    private static let pause = Duration.milliseconds(2)

    init(_ bed: TestBed) { endpoints = [bed.endpoint, bed.httpEndpoint] }

    /// Opens connections at an even pace.
    /// - Returns: how many were opened, and how many the node still held at the end.
    func connect(_ count: Int, within time: Duration) async -> (opened: Int, held: Int) {
        let start = MonotonicTime.now
        var opened = 0
        for number in 0..<count {
            let wait = start + time * number / count - .now
            if wait > .zero { await loop.sleep(for: wait) }
            if start + time < .now { break }
            guard let stream = try? await loop.dial(endpoints[number % endpoints.count], timeout: .seconds(5)) else {
                await loop.sleep(for: Self.pause)
                continue
            }
            stream.handler = self
            stream.resumeReading()
            held[ObjectIdentifier(stream)] = stream
            opened += 1
        }
        let wait = start + time - .now
        if wait > .zero { await loop.sleep(for: wait) }
        defer {
            for stream in held.values { stream.close() }
            held = [:]
        }
        return (opened, held.count)
    }

    nonisolated func stream(_ stream: ByteStream, received bytes: RawSpan) {}

    nonisolated func stream(_ stream: ByteStream, ended reason: StreamError) {
        let name = ObjectIdentifier(stream)
        assumeIsolated { $0.held[name] = nil }
    }
}

/// Honest senders, each with its own phone, a new connection and a single attempt.
private actor HonestClients {
    private nonisolated let loop = EventLoop(name: "honest")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    struct Served {
        var tnp = 0
        var http = 0
        var slowest = Duration.zero
    }

    private let bed: TestBed
    private var served = Served()

    private static let patience = Duration.seconds(8)

    init(_ bed: TestBed) { self.bed = bed }

    func run(_ count: Int, within time: Duration) async -> Served {
        let phones = bed.tokens[.iOS] ?? []
        await withTaskGroup { group in
            for number in 0..<count {
                // Silent connections are open before the first honest senders start.
                let start = time * (number + 1) / (count + 1)
                group.addTask {
                    await self.attempt(Array(phones[2 * number]), after: start) { try await self.submit($0) }
                }
                group.addTask {
                    await self.attempt(Array(phones[2 * number + 1]), after: start) { try await self.submitByHTTP($0) }
                }
            }
        }
        return served
    }

    private func attempt(
        _ phone: [UInt8], after delay: Duration, _ send: (Envelope) async throws -> Bool
    ) async {
        await loop.sleep(for: delay)
        var source = EnvelopeGenerator([.iOS: [phone]])
        let start = MonotonicTime.now
        guard (try? await send(source.next(.iOS))) == true else { return }
        served.slowest = max(served.slowest, .now - start)
    }

    private func submit(_ envelope: Envelope) async throws -> Bool {
        let client = TocsinClient(
            TocsinClient.Options(nodes: [bed.endpoint], patience: .zero, isolatesPhones: false), on: loop)
        let outcome = try? await client.submit(envelope, timeout: Self.patience)
        await client.close()
        guard outcome?.kind == .delivered else { return false }
        served.tnp += 1
        return true
    }

    private func submitByHTTP(_ envelope: Envelope) async throws -> Bool {
        let stream = try await loop.dial(bed.httpEndpoint, timeout: Self.patience)
        let answer = await BisqRelayRequest(envelope).answer(on: stream, host: "localhost", within: Self.patience, loop)
        guard BisqRelayRequest.isSuccess(answer) else { return false }
        served.http += 1
        return true
    }
}
