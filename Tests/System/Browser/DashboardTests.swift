// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Foundation
import StandIns
import TestSupport
import Testing

@testable import AdminPort
@testable import TNP
@testable import TocsinNode
@testable import Tor

/// A sample node. Each snapshot has one more notification in flight.
private final class SampleNode: AdminServer.Source {
    var snapshots = 0
    var isAlive = true
    var notReady: [Concern] = []

    func metricsText() -> [UInt8] { Array("tocsin_in_flight \(snapshots)\n".utf8) }

    func snapshot() -> NodeSnapshot {
        snapshots += 1
        // 2026-05-29 14:03:20 UTC
        let now: Int64 = 1_780_063_400
        var history = History()
        for second in stride(from: now - 86_400, through: now, by: 6) {
            // A daily cycle with short-term variation, and an outage of a push service for half an hour.
            let wave = 1.2 + cos(Double(second - now + 5000) / 13_750) + 0.25 * sin(Double(second) / 420)
            let isOutage = (now - 30_000..<now - 28_200).contains(second)
            let part = Double((second / 6 &* 2_654_435_761) & 0xFFFF) / 65_536
            for _ in 0..<Int(max(0, wave) + part) { history.count(isOutage ? .retry : .delivered, at: second) }
            if part < 0.12 { history.count(.retry, at: second) }
            if part > 0.95 { history.count(.rejected, at: second) }
            if (0.5..<0.53).contains(part) { history.count(.gone, at: second) }
        }
        var snapshot = NodeSnapshot(
            now: now + Int64(snapshots), version: "1.1.0", uptime: 41_000, notReady: notReady,
            connections: (tnp: 214, http: 38), circuits: 197, inFlight: 1000 + snapshots,
            spool: (envelopes: 12, bytes: 9_834), effort: (all: 0, unproven: 65_536), hour: history.hour(at: now),
            day: history.day(at: now),
            refusals: [
                (reason: "too many for this device token", lastHour: 42, total: 1310),
                (reason: "too many for device tokens not accepted yet", lastHour: 17, total: 402),
                (reason: "the ttl is over", lastHour: 2, total: 11),
            ],
            latencies: [
                .init(stage: "ingress", p50: 0.000_021, p90: 0.000_048, p99: 0.000_21),
                .init(stage: "admission", p50: 0.000_011, p90: 0.000_019, p99: 0.000_12),
                .init(stage: "queue", p50: 0.000_033, p90: 0.000_4, p99: 0.012),
                .init(stage: "provider", p50: 0.061, p90: 0.14, p99: 0.83),
            ],
            routes: [
                .init(
                    name: "bisq/Android", breaker: "closed", isSurge: false, inFlight: 3, waiting: 0,
                    answers: [(reason: "200", count: 48_211), (reason: "404 UNREGISTERED", count: 318)], p50: 0.12,
                    p99: 0.94),
                .init(
                    name: "bisq/iOS", breaker: "closed", isSurge: false, inFlight: 2, waiting: 0,
                    answers: [(reason: "200", count: 39_870), (reason: "410 Unregistered", count: 207)], p50: 0.052,
                    p99: 0.31),
                .init(
                    name: "haveno/Android", breaker: "half-open", isSurge: false, inFlight: 12, waiting: 9,
                    answers: [(reason: "503 UNAVAILABLE", count: 92), (reason: "200", count: 877)], p50: 1.9, p99: 9.7),
            ],
            credentials: [
                .init(app: "bisq", kind: "APNs key", file: "bisq.p8", expires: nil),
                .init(app: "bisq", kind: "FCM service account", file: "bisq-fcm.json", expires: nil),
                .init(app: "haveno", kind: "APNs certificate", file: "haveno.p12", expires: now + 11 * 86_400 + 3600),
            ],
            tor: .init(
                address: "tocsinexampleexampleexampleexampleexampleexampleexampleex.onion", bootstrap: 100,
                isPublished: true, onions: [], restarts: 0, warning: nil
            ),
            alarms: [
                .init(
                    time: now - 240, level: "error",
                    text: "circuit breaker opened: no requests to this push service for 2 s (answer: 503 UNAVAILABLE, "
                        + "route: haveno/Android)", count: 3),
                .init(
                    time: now - 100_000, level: "warning",
                    text:
                        "Apple's certificate expires soon: put a new one from developer.apple.com in its place "
                        + "(expires: 2026-06-09, file: haveno.p12)", count: 2),
                .init(
                    time: now - 200_000, level: "warning",
                    text:
                        "spool.enabled is off: Bisq 1 and Haveno do not retry after 503, so these notifications are lost",
                    count: 1, isSetUp: true),
            ])
        snapshot.name = "attic"
        snapshot.starts = [now - 41_000]
        snapshot.machine = [
            .init("memory", 88 << 20, of: 1 << 30, isBytes: true),
            .init("file descriptors", 311, of: 65_536, isBytes: false),
            .init("disk of the state directory", 13 << 30, of: 40 << 30, isBytes: true),
        ]
        for index in snapshot.routes.indices {
            snapshot.routes[index].app = String(snapshot.routes[index].name.prefix { $0 != "/" })
            snapshot.routes[index].credential = snapshot.routes[index].name
            snapshot.routes[index].record.answered(isDelivered: true, at: now - 7 - Int64(index) * 900)
            snapshot.routes[index].day = (0..<24).map { hour in
                NodeSnapshot.Bucket(
                    start: now - Int64(23 - hour) * 3600, delivered: (hour * 7 + index * 5) % 11 * (3 - index),
                    retry: index == 2 && hour > 21 ? 2800 : hour % 9 == 4 ? 3 : 0)
            }
        }
        snapshot.routes[2].record.breakerChanged(isClosed: false, after: "UNAVAILABLE", at: now - 1810)
        snapshot.routes[2].nextProbe = 23
        snapshot.routes.append(.init(name: "haveno/iOS"))
        snapshot.routes[3].app = "haveno"
        snapshot.routes[3].record.probe = .init(time: now - 900, verdict: .good, answer: "BadDeviceToken")
        return snapshot
    }
}

/// The admin port, as HTTP clients and a browser use it.
@Suite(.tags(.browser)) struct DashboardTests {
    private let loop = EventLoop(name: "test")
    private var domain: LoopDomain { LoopDomain(loop) }

    /// A sample node and its server, which live on the loop.
    private final class TestBed: @unchecked Sendable {
        // Unchecked: touched on the loop only.
        let node: SampleNode
        let server: AdminServer

        init(on loop: EventLoop, at endpoint: Endpoint = .tcp(host: "127.0.0.1", port: 0)) throws {
            node = SampleNode()
            server = try AdminServer(at: endpoint, on: loop, source: node)
        }
    }

    /// Runs `body` with a server and its address.
    private func withServer(_ body: (TestBed, String) async throws -> Void) async throws {
        let bed = try await domain.run { domain in try TestBed(on: domain.loop) }
        let endpoint = await domain.run { _ in "\(bed.server.endpoint)" }
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(bed, endpoint))
        } catch {
            result = .failure(error)
        }
        await domain.run { _ in bed.server.close() }
        try result.get()
    }

    private func isInstalled(_ program: String) async throws -> Bool {
        if try await ChildProcess.output(of: "which", [program]).isSuccess { return true }
        print("SKIPPED: \(program) is not installed, so part of the dashboard was not tested")
        return false
    }

    // MARK: HTTP clients

    private func curl(_ arguments: [String]) async throws -> String {
        try await ChildProcess.output(of: "curl", ["-sS", "--max-time", "20"] + arguments).text
    }

    @Test func `each path answers with the security headers, and foreign origins get 403`() async throws {
        guard try await isInstalled("curl") else { return }
        try await withServer { bed, endpoint in
            let answers: [(path: String, type: String, body: String)] = [
                ("/", "text/html; charset=utf-8", "<!DOCTYPE html>"),
                ("/metrics", "text/plain; version=0.0.4; charset=utf-8", "tocsin_in_flight"),
                ("/healthz", "application/json", #"{"status":"ok"}"#),
                ("/readyz", "application/json", #"{"ready":true}"#),
                ("/status.json", "application/json", #"{"now":"#),
                ("/dashboard.css", "text/css; charset=utf-8", ":root"),
                ("/dashboard.js", "text/javascript; charset=utf-8", "\"use strict\";"),
            ]
            for (path, type, body) in answers {
                let answer = try await curl(["-i", "http://\(endpoint)\(path)"])
                #expect(answer.hasPrefix("HTTP/1.1 200 OK\r\nContent-Type: \(type)\r\n"), "\(path)")
                #expect(answer.contains("\r\n\r\n\(body)"), "\(path)")
                for (name, value) in AdminGate.headers { #expect(answer.contains("\r\n\(name): \(value)\r\n")) }
                #expect(!answer.lowercased().contains("set-cookie"))
            }
            for (arguments, status) in [
                (["-H", "Host: evil.example", "http://\(endpoint)/"], 403),
                (["-H", "Origin: http://evil.example", "http://\(endpoint)/metrics"], 403),
                (["-H", "Sec-Fetch-Site: cross-site", "http://\(endpoint)/"], 403),
                (["-X", "POST", "http://\(endpoint)/"], 405), (["http://\(endpoint)/nothing"], 404),
                (["-d", "body", "http://\(endpoint)/"], 413),
            ] {
                let answer = try await curl(["-i"] + arguments)
                #expect(answer.hasPrefix("HTTP/1.1 \(status) "))
                #expect(answer.contains("\r\nContent-Security-Policy: default-src 'none'") || status == 413)
            }
            #expect(try await curl(["-I", "http://\(endpoint)/events"]).contains("text/event-stream"))
            await domain.run { _ in
                bed.node.isAlive = false
                bed.node.notReady = [Concern("no route works")]
            }
            #expect(try await curl(["-w", "%{http_code}", "http://\(endpoint)/healthz"]).hasSuffix("}\n503"))
            #expect(
                try await curl(["-w", "%{http_code}", "http://\(endpoint)/readyz"])
                    == "{\"ready\":false,\"reasons\":[\"no route works\"]}\n503")
        }
    }

    @Test func `a unix socket accepts any Host header`() async throws {
        guard try await isInstalled("curl") else { return }
        let path = NSTemporaryDirectory() + "tocsin-admin-\(UUID().uuidString.prefix(8)).sock"
        let bed = try await domain.run { domain in try TestBed(on: domain.loop, at: .unix(path: path)) }
        let answer = try await curl(["--unix-socket", path, "http://anything.example/healthz"])
        await domain.run { _ in bed.server.close() }
        #expect(answer == "{\"status\":\"ok\"}\n")
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    /// Reads a stream of events.
    private final class EventReader: ByteStreamHandler {
        var text = ""
        var isOver = false
        let stream: ByteStream

        init(to server: AdminServer, on loop: EventLoop, isolation: isolated (any Actor)? = #isolation) async throws {
            stream = try await loop.dial(server.endpoint, timeout: .seconds(60))
            stream.handler = self
            stream.write(Array("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8))
            stream.resumeReading()
        }

        func stream(_ stream: ByteStream, received bytes: RawSpan) {
            bytes.withUnsafeBytes { text += String(decoding: $0, as: UTF8.self) }
        }

        func stream(_ stream: ByteStream, ended reason: StreamError) { isOver = true }

        var events: Int { text.components(separatedBy: "event: main\n").count - 1 }
    }

    @Test func `the server samples the node only while a client reads the event stream`() async throws {
        try await withServer { bed, _ in
            try await domain.run { domain in
                let one = try await EventReader(to: bed.server, on: domain.loop)
                let other = try await EventReader(to: bed.server, on: domain.loop)
                #expect(await eventually { one.events >= 3 && other.events >= 3 })
                #expect(one.text.hasPrefix("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"))
                #expect(!one.text.contains("Content-Length"))
                // One snapshot is rendered for both.
                #expect(bed.node.snapshots <= one.events + 2)
                one.stream.close()
                other.stream.close()
                await domain.loop.sleep(for: AdminServer.interval * 2)
                let snapshots = bed.node.snapshots
                await domain.loop.sleep(for: AdminServer.interval * 2)
                #expect(bed.node.snapshots == snapshots)
                let again = try await EventReader(to: bed.server, on: domain.loop)
                #expect(await eventually { again.events >= 2 })
                bed.server.close()
                #expect(await eventually { again.isOver })
            }
        }
    }

    @Test func `an event stream over the limit gets 503, and a closed one frees its place`() async throws {
        try await withServer { bed, _ in
            try await domain.run { domain in
                var readers: [EventReader] = []
                for count in 1...AdminServer.maximumStreams {
                    readers.append(try await EventReader(to: bed.server, on: domain.loop))
                    #expect(await eventually { readers[count - 1].events >= 1 })
                }
                // A reader that a busy machine holds up is closed, and leaves its place to another one.
                var late: EventReader?
                for _ in 0..<100 where late == nil {
                    let next = try await EventReader(to: bed.server, on: domain.loop)
                    #expect(await eventually { !next.text.isEmpty })
                    if next.text.hasPrefix("HTTP/1.1 503 ") { late = next } else { readers.append(next) }
                }
                let refused = try #require(late)
                #expect(await eventually { refused.text.contains("close one of them.\n") })
                let open = readers.count
                try #require(readers.last).stream.close()
                for _ in 0..<6000 where readers.count == open {
                    let next = try await EventReader(to: bed.server, on: domain.loop)
                    #expect(await eventually { !next.text.isEmpty })
                    if next.text.hasPrefix("HTTP/1.1 200 ") { readers.append(next) }
                }
                #expect(readers.count == open + 1)
            }
        }
    }

    @Test func `a new connection evicts an idle one at the limit, never an event stream`()
        async throws
    {
        try await withServer { bed, _ in
            try await domain.run { domain in
                let reader = try await EventReader(to: bed.server, on: domain.loop)
                #expect(await eventually { reader.events >= 1 })
                var idle: [StreamReader] = []
                for _ in 0..<AdminServer.maximumConnections + 8 {
                    idle.append(StreamReader(try await domain.loop.dial(bed.server.endpoint, timeout: .seconds(60))))
                }
                let late = try await EventReader(to: bed.server, on: domain.loop)
                #expect(await eventually { late.events >= 1 && reader.events >= 3 })
                #expect(!reader.isOver)
            }
        }
    }

    // MARK: Browser

    /// What `browse.py` reports about a page.
    private struct PageReport: Decodable {
        var html: String
        /// Console messages of the page and of the browser.
        var console: [String]
        /// The URLs that the page requested.
        var requests: [String]
        /// By how many pixels the page is wider than its window.
        var overflow: Int
    }

    /// Opens the page in Chromium with `Tests/System/Browser/browse.py`, until an expression is true.
    private func browse(_ endpoint: String, _ arguments: [String]) async throws -> PageReport {
        let output = try await ChildProcess.output(
            of: "python3", ["Tests/System/Browser/browse.py", "http://\(endpoint)/"] + arguments)
        try #require(output.isSuccess, "\(output.text)")
        return try JSONDecoder().decode(PageReport.self, from: Data(output.text.utf8))
    }

    private func hasBrowser() async throws -> Bool {
        let hasPython = try await isInstalled("python3")
        let hasChromium = try await isInstalled("chromium")
        return hasPython && hasChromium
    }

    /// The number in flight that a page shows.
    private func figure(_ page: String) -> Int? {
        page.firstMatch(of: /In flight<\/span> <strong>([0-9,]+)/).flatMap { Int($0.1.replacing(",", with: "")) }
    }

    /// The same number, as a JavaScript expression.
    private static let figure = "Number(document.querySelector('#flow li + li strong').textContent.replace(',', ''))"

    @Test(.timeLimit(.minutes(3)))
    func `the page shows its figures without JavaScript`() async throws {
        guard try await hasBrowser() else { return }
        try await withServer { bed, endpoint in
            let page = try await browse(endpoint, ["--no-script"])
            #expect(figure(page.html) == 1001)
            #expect(page.html.contains("JavaScript is off") && page.html.contains("expires in 11 days"))
            #expect(page.console.isEmpty)
            await domain.run { _ in #expect(bed.node.snapshots == 1) }
        }
    }

    @Test(.timeLimit(.minutes(3)))
    func `with JavaScript the page follows the node, logs nothing and contacts no other host`() async throws {
        guard try await hasBrowser() else { return }
        try await withServer { bed, endpoint in
            // Snapshot 1 is in the page, snapshot 2 in the first event.
            let page = try await browse(endpoint, ["--until", "\(Self.figure) >= 1004"])
            #expect(figure(page.html) ?? 0 >= 1004)
            #expect(page.console.isEmpty)
            #expect(page.html.contains(#"<p id="link" role="status"></p>"#))
            let paths = ["/", "/dashboard.css", "/dashboard.js", "/events"]
            #expect(
                Set(page.requests.filter { !$0.hasPrefix("data:") }) == Set(paths.map { "http://\(endpoint)\($0)" }))
        }
    }

    @Test(.timeLimit(.minutes(3)))
    func `a page that lost its node shows since when, and reconnects to the next one`() async throws {
        guard try await hasBrowser() else { return }
        try await withServer { bed, endpoint in
            async let gone = browse(endpoint, ["--until", "document.title == 'attic: no connection'"])
            await domain.run { _ in
                _ = await eventually { bed.node.snapshots >= 3 }
                bed.server.close()
            }
            let page = try await gone
            #expect(page.html.contains("No connection to the node since "))
            #expect(figure(page.html) ?? 0 >= 1002)
        }
        try await withServer { bed, endpoint in
            // The page is still open when another node starts at the same address.
            let until = "document.title.startsWith('attic: N') && \(Self.figure) >= 2000"
            async let again = browse(endpoint, ["--until", until])
            let next = try await domain.run { domain in
                _ = await eventually { bed.node.snapshots >= 3 }
                bed.server.close()
                await domain.loop.sleep(for: .seconds(1))
                let next = try TestBed(on: domain.loop, at: bed.server.endpoint)
                next.node.snapshots = 1000
                return next
            }
            let page = try await again
            await domain.run { _ in next.server.close() }
            #expect(page.html.contains(#"<p id="link" role="status"></p>"#))
        }
    }

    @Test(.timeLimit(.minutes(3)), arguments: ["1280x900", "360x740"])
    func `the page fits its window, also on a phone`(_ size: String) async throws {
        guard try await hasBrowser() else { return }
        try await withServer { _, endpoint in
            let page = try await browse(endpoint, ["--size", size])
            #expect(page.overflow <= 0)
        }
    }

    /// Takes the screenshots of the documentation: `make screenshots` sets their directory.
    @Test(.timeLimit(.minutes(3)), arguments: ["light", "dark", "narrow"])
    func `the page renders in light and in dark mode, and on a phone`(_ scheme: String) async throws {
        guard try await hasBrowser() else { return }
        let wanted = ProcessInfo.processInfo.environment["TOCSIN_SCREENSHOTS"]
        let directory = wanted ?? NSTemporaryDirectory() + "tocsin-pictures-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { if wanted == nil { try? FileManager.default.removeItem(atPath: directory) } }
        let file = "\(directory)/dashboard-\(scheme).png"
        try await withServer { _, endpoint in
            let size = scheme == "narrow" ? "375x5200" : "1280x2400"
            let arguments = ["--until", "\(Self.figure) >= 1002", "--size", size, "--screenshot", file]
            let page = try await browse(endpoint, arguments + (scheme == "dark" ? ["--dark"] : []))
            #expect(page.console.isEmpty)
            let picture = try Data(contentsOf: URL(filePath: file))
            #expect(picture.starts(with: [0x89, 0x50, 0x4E, 0x47]) && picture.count > 20_000)
        }
    }
}
