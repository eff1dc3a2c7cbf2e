// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import FoundationEssentials
import HTTP2
import Time

struct BenchHTTP2: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "http2", abstract: "Measure the HTTP/2 client alone, with concurrent requests on one connection.",
        discussion: """
            The requests have the headers and the size of the node's requests to Apple, each for a device token of \
            its own.
            """)

    @Option(help: "The server's address, 127.0.0.1:PORT.")
    var server: String

    @Option(help: "The file with the certificate authority of the server, PEM.")
    var authority: String

    @Option(help: "Total number of requests.")
    var requests = 200_000

    @Option(help: "Number of concurrent requests.")
    var inFlight = 500

    @Option(help: "Also measure CPU and memory of the process with this id. Can be repeated.")
    var pid: [Int32] = []

    func run() async throws {
        guard let endpoint = Endpoint(server) else {
            throw fail("--server must be like 127.0.0.1:443, not \(server)", .usage)
        }
        let context = try TLSContext.client(
            extraAuthorities: Array(try Data(contentsOf: URL(filePath: authority))), applicationProtocol: "h2")
        let loop = EventLoop(name: "http2")
        let load = HTTP2Load(loop: loop, target: Upstream.Target(endpoint: endpoint, tls: context))
        let measurement = try await load.run(requests: requests, inFlight: inFlight, measuring: pid)
        Terminal.print(measurement.json)
        if measurement.failures > 0 { throw fail("\(measurement.failures) requests were not answered 200", .failure) }
    }
}

/// Sends requests like those to Apple over one connection, each awaited by its own task.
private actor HTTP2Load {
    private nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    private let upstream: Upstream
    private var source: PushRequestGenerator
    private var left = 0
    private var failures = 0
    private var latencies = Latencies()

    init(loop: EventLoop, target: Upstream.Target) {
        self.loop = loop
        upstream = Upstream(target, on: loop)
        source = PushRequestGenerator(authority: target.endpoint.description)
    }

    func run(requests: Int, inFlight: Int, measuring pids: [Int32]) async throws -> Measurement {
        _ = try await upstream.send(source.next(), timeout: .seconds(10))
        left = requests
        let meter = UsageMeter([nil] + pids.map { Optional($0) })
        let start = MonotonicTime.now
        await withTaskGroup { group in
            for _ in 0..<inFlight { group.addTask(executorPreference: loop) { await self.work() } }
        }
        let seconds = (MonotonicTime.now - start).milliseconds / 1000
        let usage = meter.usage
        // Closed here, on the loop, so that deinitialisation on another thread has nothing left to close.
        upstream.close()
        await loop.sleep(for: .milliseconds(100))
        return Measurement(
            requests: requests, seconds: seconds, p50: latencies.p50, p99: latencies.p99, failures: failures,
            load: usage[0], others: Array(usage.dropFirst()))
    }

    private func work() async {
        while left > 0 {
            left -= 1
            let start = MonotonicTime.now
            if (try? await upstream.send(source.next(), timeout: .seconds(30)))?.status != 200 { failures += 1 }
            latencies.record(MonotonicTime.now - start)
        }
    }
}
