// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import EventLoop
import FoundationEssentials
import Glibc
import Simulator
import TNP
import Time

struct BenchCompare: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "compare", abstract: "Compare the node and its HTTP/2 client with h2load, nghttpx and nginx.",
        discussion: """
            Measures all rows in alternating rounds and prints their medians. Only ratios within one run are \
            meaningful: do not compare rows of different runs.

            EXAMPLES
              tocsin-bench compare --rounds 5
            """)

    @Option(help: "Number of rounds.")
    var rounds = 5

    @Option(help: "Requests per row and round.")
    var requests = 200_000

    func run() async throws {
        let directory = URL.temporaryDirectory.appending(path: "tocsin-bench-\(getpid())").path()
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let bench = try Comparison(directory: directory, requests: requests)
        defer { bench.end() }
        for round in 1...rounds {
            for row in Comparison.Row.allCases {
                Terminal.progress("round \(round) of \(rounds): \(row.title) …")
                try bench.measure(row)
            }
        }
        Terminal.endProgress()
        Terminal.print(bench.table)
    }
}

/// The processes under test, and their results.
private final class Comparison {
    enum Row: Int, CaseIterable {
        case h2load, client, nghttpx, node, nginx, httpAPI

        var title: String {
            switch self {
            case .h2load: "(a) h2load → sink"
            case .client: "(b) our HTTP/2 client → sink"
            case .nghttpx: "(c) h2load → nghttpx → sink"
            case .node: "(d) TNP load → node → sink"
            case .nginx: "(e) h2load, HTTP/1.1 → nginx"
            case .httpAPI: "(f) h2load, HTTP/1.1 → node → sink"
            }
        }
    }

    private let directory: String
    private let requests: Int
    private let bench: String
    private let tocsin: String
    private let sink: MeasuredProcess
    private let sinkPort: String
    private let proxy: MeasuredProcess
    private let proxyPort: UInt16
    private let node: MeasuredProcess
    private let nodePort: UInt16
    private let httpPort: UInt16
    private let nginx: MeasuredProcess
    private let nginxPort: UInt16
    /// Makes each request of rows (e) and (f) distinct.
    private var source = EnvelopeGenerator(
        [.iOS: [Array(Hex.encode(SecureRandom.bytes(32)).utf8)]], ciphertextLength: 288)
    private var results: [Row: [Measurement]] = [:]

    init(directory: String, requests: Int) throws {
        self.directory = directory
        self.requests = requests
        bench = try Executables.bench()
        tocsin = try Executables.tocsin()
        try Data([UInt8](repeating: UInt8(ascii: "x"), count: 1024)).write(to: URL(filePath: "\(directory)/body"))
        sink = try MeasuredProcess(
            [bench, "sink", "--authority", "\(directory)/ca.pem"], directory: directory)
        sinkPort = try Self.port(of: sink)
        (proxyPort, nodePort) = (try Self.freePort(), try Self.freePort())
        (httpPort, nginxPort) = (try Self.freePort(), try Self.freePort())
        proxy = try MeasuredProcess(
            [
                "nghttpx", "--workers=1", "--frontend=127.0.0.1,\(proxyPort);no-tls",
                "--backend=127.0.0.1,\(sinkPort);;proto=h2;tls", "--insecure", "--accesslog-file=/dev/null",
                "--errorlog-file=/dev/null", "--backend-connections-per-host=1", "--conf=/dev/null",
            ], directory: directory)
        let key = "\(directory)/apns.p8"
        try Self.writeKey(to: key)
        let configuration = """
            [node]
            log = "error"
            [listen]
            tnp = "127.0.0.1:\(nodePort)"
            http = "127.0.0.1:\(httpPort)"
            [tor]
            managed = false
            \(SimulatedConfiguration.unlimitedRates)
            in_flight = 1000
            total_in_flight = 100000
            replay_entries = 2000000
            [[app]]
            name = "bench"
            [app.apns]
            topic = "org.example.app"
            key_file = "apns.p8"
            key_id = "BENCHKEY01"
            team_id = "BENCHTEAM1"
            [apns]
            production = "https://127.0.0.1:\(sinkPort)"
            trust_file = "ca.pem"

            """
        try Data(configuration.utf8).write(to: URL(filePath: "\(directory)/tocsin.toml"))
        node = try MeasuredProcess([tocsin, "run", "--config", "\(directory)/tocsin.toml"], directory: directory)
        try Data(Self.nginxConfiguration(directory, port: nginxPort).utf8).write(
            to: URL(filePath: "\(directory)/nginx.conf"))
        nginx = try MeasuredProcess(
            ["/usr/sbin/nginx", "-p", directory, "-e", "stderr", "-c", "\(directory)/nginx.conf"], directory: directory)
        usleep(500_000)
    }

    /// Terminates all processes, by their pids.
    func end() {
        for process in [node, proxy, sink, nginx] { process.end() }
    }

    func measure(_ row: Row) throws {
        let measurement: Measurement
        switch row {
        case .h2load:
            measurement = try h2load(
                ["-c1", "-m500", "https://127.0.0.1:\(sinkPort)/3/device/00"], underTest: nil)
        case .client:
            measurement = try runBench([
                "http2", "--server", "127.0.0.1:\(sinkPort)", "--authority", "\(directory)/ca.pem",
                "--requests", "\(requests)",
            ])
        case .nghttpx:
            measurement = try h2load(
                ["-c50", "-m20", "http://127.0.0.1:\(proxyPort)/3/device/00"], underTest: proxy.pid)
        case .node:
            measurement = try runBench([
                "load", "--node", "127.0.0.1:\(nodePort)", "--envelopes", "\(requests)", "--pid",
                "\(node.pid)",
            ])
        case .nginx: measurement = try relay(to: nginxPort, underTest: nginx.pid)
        case .httpAPI: measurement = try relay(to: httpPort, underTest: node.pid)
        }
        results[row, default: []].append(measurement)
    }

    private func runBench(_ arguments: [String]) throws -> Measurement {
        let result = try MeasuredProcess([bench] + arguments, directory: directory).wait()
        guard result.status == 0, let line = result.output.split(separator: "\n").last,
            let measurement = try? JSONDecoder().decode(Measurement.self, from: Data(line.utf8))
        else { throw fail("\(arguments.joined(separator: " ")) failed: \(result.output)", .failure) }
        return measurement
    }

    private func h2load(_ arguments: [String], underTest pid: pid_t?) throws -> Measurement {
        let common = [
            "h2load", "-t1", "-d", "\(directory)/body", "-H", "apns-topic: org.example.app", "-H",
            "apns-push-type: alert", "-H", "authorization: bearer " + String(repeating: "x", count: 200),
        ]
        let before = pid.map { ProcessUsage(of: $0) }
        let result = try MeasuredProcess(common + ["-n", "\(requests)"] + arguments, directory: directory).wait()
        // finished in 1.05s, 190476.19 req/s, 2.91MB/s
        guard result.status == 0, result.output.contains(" 0 failed, 0 errored"),
            let line = result.output.split(separator: "\n").first(where: { $0.hasPrefix("finished in ") }),
            let rate = line.split(separator: ",").dropFirst().first?.split(separator: " ").first.flatMap({ Double($0) })
        else { throw fail("h2load failed:\n\(result.output)", .failure) }
        var measurement = Measurement(
            requests: requests, seconds: Double(requests) / rate, cpuSeconds: result.usage.cpuSeconds,
            peakKilobytes: result.usage.ru_maxrss)
        if let pid, let before {
            let after = ProcessUsage(of: pid)
            measurement.cpuSeconds = after.cpuSeconds - before.cpuSeconds
            measurement.peakKilobytes = after.peakKilobytes
        }
        // Latencies in a second, shorter run: logging each one slows h2load down too much.
        let log = "\(directory)/latencies"
        unlink(log)
        _ = try MeasuredProcess(
            common + ["-n", "\(requests / 4)", "--log-file=\(log)"] + arguments, directory: directory
        ).wait()
        var latencies = Latencies()
        try record(log, in: &latencies)
        (measurement.p50, measurement.p99) = (latencies.p50, latencies.p99)
        return measurement
    }

    /// Sends requests as Bisq 1 does, all distinct, on several connections. Each connection is an h2load process of its
    /// own, because all connections of one process send the same list.
    private func relay(to port: UInt16, underTest pid: pid_t) throws -> Measurement {
        let connections = 16
        let each = max(1, min(requests, 32_000) / connections)
        for connection in 0..<connections {
            let list = (0..<each).map { _ in
                "http://127.0.0.1:\(port)\(BisqRelayRequest(source.next(.iOS)).target)"
            }
            try Data(list.joined(separator: "\n").utf8).write(to: URL(filePath: "\(directory)/requests-\(connection)"))
        }
        let before = ProcessUsage(of: pid)
        let start = MonotonicTime.now
        let loads = try (0..<connections).map { connection in
            let log = "\(directory)/latencies-\(connection)"
            unlink(log)
            return try MeasuredProcess(
                [
                    "h2load", "--h1", "-t1", "-c1", "-n", "\(each)", "-i", "\(directory)/requests-\(connection)",
                    "--log-file=\(log)",
                ], directory: directory)
        }
        let outputs = loads.map { $0.wait().output }
        let seconds = (MonotonicTime.now - start).milliseconds / 1000
        guard outputs.allSatisfy({ $0.contains("status codes: \(each) 2xx") }) else {
            throw fail("h2load failed:\n\(outputs.joined())", .failure)
        }
        let after = ProcessUsage(of: pid)
        var latencies = Latencies()
        for connection in 0..<connections { try record("\(directory)/latencies-\(connection)", in: &latencies) }
        return Measurement(
            requests: each * connections, seconds: seconds, cpuSeconds: after.cpuSeconds - before.cpuSeconds,
            peakKilobytes: after.peakKilobytes, p50: latencies.p50, p99: latencies.p99)
    }

    private func record(_ log: String, in latencies: inout Latencies) throws {
        let text = FileManager.default.contents(atPath: log).map { String(decoding: $0, as: UTF8.self) } ?? ""
        for line in text.split(separator: "\n") {
            if let value = line.split(separator: "\t").last.flatMap({ UInt64($0) }) {
                latencies.record(microseconds: value)
            }
        }
    }

    // MARK: Table

    private func median(_ row: Row, _ value: (Measurement) -> Double?) -> Double {
        let values = (results[row] ?? []).compactMap(value).sorted()
        return values.isEmpty ? 0 : values[values.count / 2]
    }

    var table: String {
        let header = ["", "requests/s", "CPU s / 100 000", "peak RSS MB", "p50 ms", "p99 ms"]
        let widths = [32, 12, 16, 12, 9, 9]
        func line(_ cells: [String]) -> String {
            zip(cells, widths).enumerated().map { Terminal.padded($1.0, $1.1, right: $0 > 0) }.joined()
        }
        var lines = [line(header)]
        for row in Row.allCases {
            lines.append(
                line([
                    row.title, Terminal.number(median(row, \.rate), digits: 0),
                    Terminal.number(median(row, \.cpuPer100000), digits: 2),
                    Terminal.number(median(row) { Double($0.peakKilobytes) / 1024 }, digits: 1),
                    Terminal.number(median(row, \.p50) / 1000, digits: 2),
                    Terminal.number(median(row, \.p99) / 1000, digits: 2),
                ]))
        }
        let rate = median(.client, \.rate) / median(.h2load, \.rate)
        let cpu = median(.node, \.cpuPer100000) / median(.nghttpx, \.cpuPer100000)
        lines.append("")
        lines.append(
            "medians of \(results[.node]?.count ?? 0) rounds of \(requests) requests; CPU and RSS of the part under test"
        )
        lines.append("rate of (b) / rate of (a):                     \(Terminal.number(rate * 100, digits: 0)) %")
        lines.append("CPU per envelope in (d) / per request in (c):  \(Terminal.number(cpu, digits: 2))")
        let httpAPI = median(.httpAPI, \.cpuPer100000)
        lines.append(
            "CPU per request in (f) / per request in (e):   "
                + Terminal.number(httpAPI / median(.nginx, \.cpuPer100000), digits: 2))
        lines.append(
            "CPU per request in (f) / per envelope in (d):  "
                + Terminal.number(httpAPI / median(.node, \.cpuPer100000), digits: 2))
        return lines.joined(separator: "\n")
    }

    // MARK: Set-up

    /// nginx as a single process, so that its figures are complete.
    private static func nginxConfiguration(_ directory: String, port: UInt16) -> String {
        """
        daemon off;
        master_process off;
        pid \(directory)/nginx.pid;
        events {}
        http {
            access_log off;
            client_body_temp_path \(directory);
            proxy_temp_path \(directory);
            fastcgi_temp_path \(directory);
            uwsgi_temp_path \(directory);
            scgi_temp_path \(directory);
            keepalive_requests 10000000;
            server {
                listen 127.0.0.1:\(port);
                location / { return 200 success; }
            }
        }
        """
    }

    private static func port(of sink: MeasuredProcess) throws -> String {
        for _ in 0..<100 {
            if let port = sink.output.split(separator: "\n").first?.split(separator: ":").last { return String(port) }
            usleep(50_000)
        }
        throw fail("the sink did not start", .failure)
    }

    private static func freePort() throws -> UInt16 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutableBytes(of: &address) {
            let pointer = $0.assumingMemoryBound(to: sockaddr.self).baseAddress!
            _ = bind(descriptor, pointer, length)
            _ = getsockname(descriptor, pointer, &length)
        }
        return UInt16(bigEndian: address.sin_port)
    }

    private static func writeKey(to path: String) throws {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        defer { close(descriptor) }
        _ = SigningKey.generate(.es256).pem.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
    }
}
