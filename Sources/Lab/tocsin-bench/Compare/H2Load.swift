// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import FoundationEssentials
import Glibc

/// Runs h2load with requests that have the headers and the size of the node's requests to Apple.
struct H2Load {
    /// A server and the concurrency of the requests to it.
    struct Target {
        /// Scheme, host and port.
        let origin: String
        var connections = 1
        /// Requests in flight per connection.
        let inFlight: Int
    }

    /// The number of paths, each with another device token, that h2load uses in turn.
    static let pathCount = 1000

    private let directory: String
    private let common: [String]

    /// Writes the files that h2load reads.
    init(directory: String) throws {
        self.directory = directory
        let (body, paths) = ("\(directory)/body", "\(directory)/paths")
        try Data([UInt8](repeating: UInt8(ascii: "x"), count: PushRequestGenerator.bodyLength))
            .write(to: URL(filePath: body))
        var counter = HexCounter()
        var list: [UInt8] = []
        for _ in 0..<Self.pathCount {
            counter.advance()
            list += Array("/3/device/".utf8)
            counter.append(to: &list, times: 4)
            list.append(UInt8(ascii: "\n"))
        }
        try Data(list).write(to: URL(filePath: paths))
        let headers =
            PushRequestGenerator.fixedHeaders.map { "\($0.name): \($0.value)" } + [
                "authorization: \(PushRequestGenerator.authorization)",
                "apns-id: 00000000-0000-8000-0000-000000000000",
                "apns-collapse-id: \(String(repeating: "0", count: 32))",
                "apns-expiration: \(PushRequestGenerator.expiration)", "apns-priority: 10",
            ]
        common =
            ["h2load", "-t1", "--connection-inactivity-timeout=60", "-d", body, "-i", paths]
            + headers.flatMap { ["-H", $0] }
    }

    /// Sends requests as fast as they are answered. The latencies come from a second run with a quarter of the
    /// requests, because writing each one to a file slows h2load down.
    /// - Parameter pids: the processes to measure in addition to h2load.
    func run(_ requests: Int, to target: Target, measuring pids: [Int32]) throws -> Measurement {
        let meter = UsageMeter(pids.map { Optional($0) })
        let (seconds, usage) = try send(requests, to: target)
        let others = meter.usage
        let latencies = try latencies(requests / 4, to: target)
        return Measurement(
            requests: requests, seconds: seconds, p50: latencies.p50, p99: latencies.p99, load: usage, others: others)
    }

    /// The latencies of requests.
    /// - Parameter rate: requests per second and connection; `nil` to send as fast as they are answered.
    func latencies(_ requests: Int, to target: Target, rate: Int? = nil) throws -> Latencies {
        let log = "\(directory)/latencies"
        // Without this, h2load would append to the log of the last run.
        unlink(log)
        _ = try send(requests, to: target, ["--log-file=\(log)"] + (rate.map { ["--rps=\($0)"] } ?? []))
        var latencies = Latencies()
        latencies.record(h2loadLog: log)
        return latencies
    }

    private func send(
        _ requests: Int, to target: Target, _ options: [String] = []
    ) throws -> (seconds: Double, usage: ProcessUsage) {
        let arguments =
            common + options + [
                "-n", "\(requests)", "-c", "\(target.connections)", "-m", "\(target.inFlight)", "-B", target.origin,
            ]
        let result = try MeasuredProcess(arguments, directory: directory).wait()
        // finished in 1.05s, 190476.19 req/s, 2.91MB/s
        guard result.status == 0, result.output.contains("status codes: \(requests) 2xx,"),
            let line = result.output.split(separator: "\n").first(where: { $0.hasPrefix("finished in ") }),
            let rate = line.split(separator: ",").dropFirst().first?.split(separator: " ").first.flatMap({ Double($0) })
        else { throw fail("h2load failed:\n\(result.output)", .failure) }
        return (Double(requests) / rate, result.usage)
    }
}

extension Latencies {
    /// Records the latencies in a log of h2load: the last column, in microseconds.
    mutating func record(h2loadLog log: String) {
        let text = FileManager.default.contents(atPath: log).map { String(decoding: $0, as: UTF8.self) } ?? ""
        for line in text.split(separator: "\n") {
            if let value = line.split(separator: "\t").last.flatMap({ UInt64($0) }) { record(microseconds: value) }
        }
    }
}
