// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import FoundationEssentials
import Glibc
import StandIns
import TNP
import Time

/// Sends requests as Bisq 1 does, each for a device token of its own, over several connections. Each connection is an
/// h2load process of its own, because all connections of one process send the same list.
struct RelayLoad {
    /// The most requests of a run, each of which takes a line in a file for h2load.
    static let maximumRequests = 32_000
    private static let connections = 16

    private let directory: String
    private var source = EnvelopeGenerator(ciphertextLength: PushRequestGenerator.ciphertextLength)

    init(directory: String) { self.directory = directory }

    /// Sends requests one after the other on each connection.
    /// - Parameter pids: the processes to measure in addition to h2load.
    mutating func run(_ requests: Int, to port: UInt16, measuring pids: [Int32]) throws -> Measurement {
        let each = min(requests, Self.maximumRequests) / Self.connections
        let logs = (0..<Self.connections).map { "\(directory)/latencies-\($0)" }
        for connection in 0..<Self.connections {
            let list = (0..<each).map { _ in "http://127.0.0.1:\(port)\(BisqRelayRequest(source.next(.iOS)).target)" }
            try Data(list.joined(separator: "\n").utf8).write(to: URL(filePath: "\(directory)/requests-\(connection)"))
            unlink(logs[connection])
        }
        let meter = UsageMeter(pids.map { Optional($0) })
        let start = MonotonicTime.now
        let loads = try (0..<Self.connections).map { connection in
            try MeasuredProcess(
                [
                    "h2load", "--h1", "-t1", "-c1", "-n", "\(each)", "-i", "\(directory)/requests-\(connection)",
                    "--log-file=\(logs[connection])",
                ], directory: directory)
        }
        let results = loads.map { $0.wait() }
        let seconds = (MonotonicTime.now - start).milliseconds / 1000
        let others = meter.usage
        guard results.allSatisfy({ $0.output.contains("status codes: \(each) 2xx,") }) else {
            throw fail("h2load failed:\n\(results.map(\.output).joined())", .failure)
        }
        var usage = ProcessUsage()
        var latencies = Latencies()
        for (result, log) in zip(results, logs) {
            usage.cpuSeconds += result.usage.cpuSeconds
            usage.peakKilobytes += result.usage.peakKilobytes
            latencies.record(h2loadLog: log)
        }
        return Measurement(
            requests: each * Self.connections, seconds: seconds, p50: latencies.p50, p99: latencies.p99, load: usage,
            others: others)
    }
}
