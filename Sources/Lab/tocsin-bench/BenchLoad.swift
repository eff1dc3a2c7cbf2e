// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import TNP
import Time
import TocsinClient

struct BenchLoad: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "load", abstract: "Send a load of distinct envelopes through a node.",
        discussion: """
            Each envelope is for a device token of its own. Closed loop by default: each connection keeps --in-flight \
            submissions in flight. Open loop with --rate: submissions start at that rate regardless of outcomes. \
            Latencies count from the submission.

            EXAMPLES
              tocsin-bench load --node 127.0.0.1:7077 --envelopes 200000
              tocsin-bench load --node 127.0.0.1:7077 --envelopes 60000 --rate 2000
              tocsin-bench load --node ADDRESS.onion:80 --socks 127.0.0.1:9050 --connections 10 --envelopes 20000
            """)

    @Option(help: "The address where the node listens.")
    var node: String

    @Option(help: "The SOCKS port of a tor to connect through, each connection on a circuit of its own.")
    var socks: String?

    @Option(help: "Number of connections.")
    var connections = 50

    @Option(help: "Submissions in flight per connection.")
    var inFlight = 20

    @Option(help: "Total number of envelopes.")
    var envelopes = 200_000

    @Flag(help: "Allow the node to store envelopes, and wait for the final outcome.")
    var acceptQueued = false

    @Option(help: "Open loop: envelopes per second.")
    var rate: Double?

    @Option(help: "Also measure CPU and memory of the process with this id. Can be repeated.")
    var pid: [Int32] = []

    @Option(help: "Bytes of ciphertext per envelope, a multiple of 16.")
    var ciphertext = 704

    func validate() throws {
        guard min(connections, inFlight, envelopes) > 0, rate.map({ $0 > 0 }) ?? true else {
            throw ValidationError("--connections, --in-flight and --envelopes must be at least 1, --rate above 0")
        }
    }

    func run() async throws {
        guard (32...3072).contains(ciphertext), ciphertext.isMultiple(of: 16) else {
            throw fail("--ciphertext must be a multiple of 16 from 32 to 3072, not \(ciphertext)", .usage)
        }
        guard let endpoint = Endpoint(node) else {
            throw fail("--node must be like 127.0.0.1:7077, not \(node)", .usage)
        }
        let proxy = socks.flatMap(Endpoint.init)
        if let socks, proxy == nil { throw fail("--socks must be like 127.0.0.1:9050, not \(socks)", .usage) }
        let loop = EventLoop(name: "load")
        let load = NodeLoad(
            loop: loop, node: endpoint, proxy: proxy.map { .socks5($0, nil) }, connections: connections,
            ciphertext: ciphertext, acceptQueued: acceptQueued)
        try await load.warmUp()
        let meter = UsageMeter([nil] + pid.map { Optional($0) })
        var measurement = await load.run(envelopes: envelopes, inFlight: inFlight, rate: rate)
        let usage = meter.usage
        measurement.load = usage[0]
        measurement.others = Array(usage.dropFirst())
        Terminal.print(measurement.json)
        await load.close()
        if measurement.failures > 0 {
            throw fail("\(measurement.failures) envelopes were not delivered", .failure)
        }
    }
}

/// Many senders on one loop.
private actor NodeLoad {
    private nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    private let clients: [TocsinClient]
    private var source: EnvelopeGenerator
    private let acceptQueued: Bool
    private var left = 0
    private var failures = 0
    private var latencies = Latencies()

    /// The longest time until a client's first envelope is delivered: through tor, it needs new circuits.
    private static let warmUpTime = Duration.seconds(60)

    init(loop: EventLoop, node: Endpoint, proxy: Proxy?, connections: Int, ciphertext: Int, acceptQueued: Bool) {
        self.loop = loop
        self.acceptQueued = acceptQueued
        clients = (0..<connections).map { _ in
            TocsinClient(
                TocsinClient.Options(nodes: [node], proxy: proxy, patience: .zero, isolatesPhones: false), on: loop)
        }
        source = EnvelopeGenerator(ciphertextLength: ciphertext)
    }

    func warmUp() async throws {
        for client in clients { _ = try await client.submit(source.next(.iOS), timeout: Self.warmUpTime) }
    }

    func run(envelopes: Int, inFlight: Int, rate: Double?) async -> Measurement {
        left = envelopes
        let start = MonotonicTime.now
        if let rate {
            await openLoop(envelopes, rate: rate)
        } else {
            await withTaskGroup { group in
                for client in clients {
                    for _ in 0..<inFlight { group.addTask { await self.closedLoop(client) } }
                }
            }
        }
        let seconds = (MonotonicTime.now - start).milliseconds / 1000
        return Measurement(
            requests: envelopes, seconds: seconds, p50: latencies.p50, p99: latencies.p99, failures: failures)
    }

    private func closedLoop(_ client: TocsinClient) async {
        while left > 0 {
            left -= 1
            await submit(by: client, since: .now)
        }
    }

    private func openLoop(_ envelopes: Int, rate: Double) async {
        let start = MonotonicTime.now
        await withTaskGroup { group in
            for index in 0..<envelopes {
                let due = start + .seconds(Double(index) / rate)
                let wait = due - .now
                if wait > .milliseconds(1) { await loop.sleep(for: wait) }
                let client = clients[index % clients.count]
                // The latency counts from the submission, which never waits for an earlier one, and not from `due`: the
                // loop's timers may be more than a millisecond late.
                let submitted = MonotonicTime.now
                group.addTask(executorPreference: loop) { await self.submit(by: client, since: submitted) }
            }
        }
    }

    private func submit(by client: TocsinClient, since start: MonotonicTime) async {
        let outcome = try? await client.submit(source.next(.iOS), acceptQueued: acceptQueued)
        if outcome?.kind != .delivered { failures += 1 }
        latencies.record(MonotonicTime.now - start)
    }

    func close() async {
        for client in clients { await client.close() }
    }
}
