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
            authorities: TrustedAuthorities(and: Array(try Data(contentsOf: URL(filePath: authority)))),
            applicationProtocol: "h2")
        let loop = EventLoop(name: "http2")
        let load = HTTP2Load(loop: loop, destination: Destination(endpoint, tls: context))
        let measurement = try await load.run(requests: requests, inFlight: inFlight, measuring: pid)
        Terminal.print(measurement.json)
        if measurement.failures > 0 { throw fail("\(measurement.failures) requests were not answered 200", .failure) }
    }
}

/// Sends requests like the node's to Apple over one connection, each as soon as an earlier one is answered.
private final class HTTP2Load: ResponseReceiver, @unchecked Sendable {
    // Unchecked: used on the loop's thread only.

    private let loop: EventLoop
    private let upstream: ConnectionPool
    private var source: PushRequestGenerator
    private var left = 0
    private var started: [MonotonicTime] = []
    private var failures = 0
    private var answered = 0
    private var latencies = Latencies()
    private var whenAnswered: (count: Int, continuation: CheckedContinuation<Void, Never>)?

    init(loop: EventLoop, destination: Destination) {
        self.loop = loop
        upstream = ConnectionPool(destination, on: loop)
        source = PushRequestGenerator(authority: destination.endpoint.description)
    }

    func run(requests: Int, inFlight: Int, measuring pids: [Int32]) async throws -> Measurement {
        _ = try await upstream.send(source.next(), timeout: .seconds(10))
        return await LoopDomain(loop).run { _ in
            let meter = UsageMeter([nil] + pids.map { Optional($0) })
            let start = MonotonicTime.now
            self.left = requests
            self.started = Array(repeating: start, count: inFlight)
            await withCheckedContinuation { continuation in
                self.whenAnswered = (requests, continuation)
                for worker in 0..<inFlight { self.send(UInt64(worker)) }
            }
            let seconds = (MonotonicTime.now - start).milliseconds / 1000
            let usage = meter.usage
            // Closes the pool on the loop: its `deinit` on another thread then has nothing left to close.
            self.upstream.close()
            await self.loop.sleep(for: .milliseconds(100))
            return Measurement(
                requests: requests, seconds: seconds, p50: self.latencies.p50, p99: self.latencies.p99,
                failures: self.failures, load: usage[0], others: Array(usage.dropFirst()))
        }
    }

    private func send(_ worker: UInt64) {
        guard left > 0 else { return }
        left -= 1
        started[Int(worker)] = .now
        upstream.start(source.next(), timeout: .seconds(30), number: worker, for: self)
    }

    func received(_ result: Result<Response, RequestFailure>, for number: UInt64, on connection: Int?) {
        if (try? result.get())?.status != 200 { failures += 1 }
        latencies.record(MonotonicTime.now - started[Int(number)])
        answered += 1
        if answered == whenAnswered?.count {
            whenAnswered.take()?.continuation.resume()
        } else {
            send(number)
        }
    }
}
