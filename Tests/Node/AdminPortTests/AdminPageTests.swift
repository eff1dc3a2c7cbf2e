// SPDX-License-Identifier: Apache-2.0

import Foundation
import Settings
import TestSupport
import Testing

@testable import AdminPort
@testable import NodeConfiguration
@testable import TocsinNode

extension NodeSnapshot {
    /// A snapshot with a value in every part; its texts are `text`.
    static func sample(_ text: String = "words") -> NodeSnapshot {
        let now: Int64 = 1_790_000_000
        return NodeSnapshot(
            now: now, version: text, uptime: 90_061, notReady: [Concern(text)], connections: (tnp: 12, http: 3),
            circuits: 9, inFlight: 1234, spool: (envelopes: 17, bytes: 12_345_678), handles: 5,
            effort: (all: 16_384, unproven: 0),
            hour: (0..<60).map {
                Bucket(
                    start: now / 60 * 60 + Int64($0 - 59) * 60, delivered: $0, rejected: $0 % 3, retry: $0 % 7,
                    gone: $0 % 5)
            },
            day: (0..<144).map { Bucket(start: now / 600 * 600 + Int64($0 - 143) * 600, delivered: 1000 * $0) },
            refusals: [(reason: text, lastHour: 7, total: 1_234_567)],
            latencies: [
                .init(stage: text, p50: 0.000_085, p90: 0.012, p99: 1.24),
                .init(stage: "queue", p50: nil, p90: nil, p99: nil),
            ],
            routes: [
                RouteState(
                    name: text, breaker: text, isSurge: true, inFlight: 3, waiting: 2,
                    answers: [(reason: text, count: 4)], p50: 0.05, p99: 3)
            ],
            credentials: [
                .init(app: text, kind: text, file: text, expires: now + 12 * 86_400 + 5),
                .init(app: "b", kind: "APNs key", file: "b.p8", expires: nil),
            ],
            upstreams: [
                .init(app: text, node: text, connections: 3, isReachable: true, effort: 16_384, failure: nil),
                .init(app: text, node: text, connections: 0, isReachable: false, effort: 0, failure: text),
                .init(app: text, node: text, connections: 0, isReachable: nil, effort: 0, failure: nil),
            ],
            cluster: .init(
                isAvailable: false, isSlow: true, problem: text, seconds: 90, roundTrip: 0.001, clockOffset: -0.5,
                nodes: [
                    .init(name: text, version: text, isAlive: true, absence: 2),
                    .init(name: text, version: text, isAlive: false, absence: 4000),
                ]
            ),
            canary: .init(interval: 3600, lastSuccess: now - 4000, last: .init(isDelivered: false, text: text)),
            tor: .init(
                address: text, bootstrap: 45, isPublished: false,
                onions: [true, false].map { .init(name: text, address: text, isPublished: $0) },
                restarts: 2, warning: text
            ),
            alarms: [
                Alarm(time: now - 60, level: text, text: text, count: 3),
                Alarm(time: now - 86_400, level: "warning", text: text, count: 1),
            ])
    }

    /// A snapshot without data.
    static func empty(now: Int64 = 1_790_000_000) -> NodeSnapshot {
        NodeSnapshot(
            now: now, version: "1", uptime: 0, notReady: [], connections: (tnp: 0, http: 0), circuits: 0, inFlight: 0,
            spool: nil, handles: nil, effort: (all: 0, unproven: 0), hour: [], day: [], refusals: [], latencies: [],
            routes: [],
            credentials: [], tor: nil, alarms: [])
    }
}

/// The tags of a page in order, without the values of their attributes.
private func skeleton(_ page: String) -> [String] {
    page.matches(of: /<(\/?[a-zA-Z!][^\s>\/]*)([^>]*)>/).map { match in
        let attributes = match.2.matches(of: /([^\s="]+)="[^"]*"/).map { String($0.1) }
        return "\(match.1) \(attributes.joined(separator: " "))"
    }
}

@Suite(.tags(.computing)) struct DashboardPageTests {
    private static let hostile = "<script>alert(1)</script><b id=x onclick='a'>\"'&amp;\u{0}\r\ndata: x\n\n"

    private func page(_ snapshot: NodeSnapshot) -> String {
        String(decoding: DashboardPage(snapshot).document, as: UTF8.self)
    }

    @Test func `external text never becomes markup`() {
        #expect(skeleton(page(.sample(Self.hostile))) == skeleton(page(.sample())))
        let page = page(.sample(Self.hostile))
        #expect(
            page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&lt;b id=x onclick=&#39;a&#39;&gt;&quot;&#39;&amp;amp;")
        )
        #expect(!page.contains("<script>") && !page.contains("<b ") && !page.contains("\0") && !page.contains("\r"))
    }

    @Test func `external text never ends a line of an event`() {
        let plain = DashboardPage(.sample()).main.text.count { $0 == "\n" }
        #expect(DashboardPage(.sample(Self.hostile)).main.text.count { $0 == "\n" } == plain)
    }

    @Test func `each line of an event is a field`() {
        let page = DashboardPage(.sample(Self.hostile))
        let lines = String(decoding: page.event, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.first == "event: main" && lines.suffix(2) == ["", ""])
        #expect(lines.dropFirst().dropLast(2).map { $0.dropFirst(6) }.joined(separator: "\n") == page.main.text)
        #expect(lines.dropFirst().dropLast(2).allSatisfy { $0.hasPrefix("data: ") })
    }

    @Test(arguments: [NodeSnapshot.sample(), .empty()])
    func `every tag is closed, and the page complies with its content security policy`(_ snapshot: NodeSnapshot) {
        let page = page(snapshot)
        var open: [Substring] = []
        for match in page.matches(of: /<(\/?)([a-zA-Z][^\s>\/]*)[^>]*?(\/?)>/) {
            let name = match.2
            if ["meta", "link", "br"].contains(name) || !match.3.isEmpty { continue }
            if match.1.isEmpty { open.append(name) } else { #expect(open.popLast() == name) }
        }
        #expect(open.isEmpty)
        for forbidden in [" style=", "<style", " onclick", " onload", "javascript:", "<iframe", "<form"] {
            #expect(!page.contains(forbidden))
        }
        #expect(page.components(separatedBy: "<script").count == 2)
        // The namespace of the icon is not a link.
        #expect(!page.replacing("http://www.w3.org/2000/svg", with: "").contains("http"))
    }

    @Test(arguments: [NodeSnapshot.sample(), .empty()])
    func `ids are unique, and each section has one`(_ snapshot: NodeSnapshot) {
        let page = page(snapshot)
        let ids = page.matches(of: /\sid="([^"]*)"/).map { String($0.1) }
        #expect(Set(ids).count == ids.count)
        #expect(page.components(separatedBy: "<section").count == page.components(separatedBy: "<section id=").count)
    }

    @Test func `the event of a busy day is under 100 kB`() {
        var snapshot = NodeSnapshot.sample()
        snapshot.day = snapshot.day.map {
            .init(start: $0.start, delivered: 98_765, rejected: 43_210, retry: 9876, gone: 5432)
        }
        snapshot.hour = snapshot.hour.map {
            .init(start: $0.start, delivered: 9876, rejected: 4321, retry: 987, gone: 543)
        }
        #expect(DashboardPage(snapshot).event.count < 100_000)
    }

    @Test func `each row and column of a table has a header`() {
        let page = page(.sample())
        #expect(page.matches(of: /<th>/).isEmpty)
        for row in page.matches(of: /<tr>(.*?)<\/tr>/) {
            #expect(row.1.contains("scope=\"row\"") || row.1.contains("scope=\"col\""))
        }
        #expect(page.matches(of: /<table>/).count == page.matches(of: /<caption>[^<]+<\/caption>/).count)
    }

    @Test func `the page shows the figures`() {
        let page = page(.sample("W"))
        for text in [
            "1,234", "12 over TNP, 3 over HTTP, 9 circuits", "11.8 MiB, encrypted", "85 µs", "12 ms", "1.2 s",
            "1,234,567",
            "16,384 hashes, about 6.6 ms on a desktop", "expires in 12 days", ">&nbsp;never<", "connecting: 45 %",
            ">&nbsp;not published<", "surge of token refusals", "up for 1 day 1 hour",
            "1 alarm in the last hour", "14:13:20 UTC",
        ] {
            #expect(page.contains(text), "\(text)")
        }
    }

    @Test(arguments: [
        ("closed", "not tried yet"), ("open", "</svg>&nbsp;shut</span>"),
        ("half-open", "</svg>&nbsp;shut: probing</span>"),
    ])
    func `the page spells out the state of a route`(_ state: String, _ text: String) {
        var snapshot = NodeSnapshot.sample()
        snapshot.routes[0].breaker = state
        #expect(page(snapshot).contains(text))
        snapshot.routes[0].record.answered(isDelivered: true, at: snapshot.now - 120)
        #expect(page(snapshot).contains("</svg>&nbsp;working</span>") == (state == "closed"))
        #expect(page(snapshot).contains("2 minutes ago"))
    }

    @Test func `the page says so if there is no data yet`() {
        let page = page(.empty())
        for text in [
            "Everything works", "No alarms since the start", "No rejections since the start", ">&nbsp;off<",
        ] {
            #expect(page.contains(text), "\(text)")
        }
    }

    @Test func `non-finite and extreme numbers do not crash the page`() {
        var snapshot = NodeSnapshot.sample()
        snapshot.latencies = [Double.nan, .infinity, -1, 0, 1e300].map { .init(stage: "s", p50: $0, p90: $0, p99: $0) }
        snapshot.tor?.bootstrap = .max
        snapshot.effort = (all: .max, unproven: 1)
        snapshot.credentials[0].expires = 0
        snapshot.hour = [NodeSnapshot.Bucket(start: 0, delivered: .max / 8)]
        #expect(page(snapshot).contains("expired on 1970-01-01"))
    }
}

@Suite(.tags(.computing)) struct HealthTests {
    @Test func `health is good if there are no problems`() {
        let health = Health(.empty())
        #expect(health.grade == .good && health.reasons.isEmpty)
    }

    @Test func `health is bad if no route works`() {
        var snapshot = NodeSnapshot.sample()
        snapshot.notReady = [Concern("no route works", "a\nb")]
        let health = Health(snapshot)
        #expect(health.grade == .bad && health.reasons.first == "no route works: a\nb")
        #expect(health.summary.hasPrefix("The node is not ready: no route works"))
    }

    @Test func `the summary does not tell whether somebody was rung`() {
        var snapshot = NodeSnapshot.sample()
        snapshot.notReady = []
        snapshot.tor = .init(address: nil, bootstrap: 100, isPublished: false, onions: [], restarts: 0, warning: nil)
        #expect(snapshot.hour.contains { $0.delivered > 0 })
        #expect(
            Health(snapshot).summary
                == "The node is ready, but surge of token refusals on words, and 6 more")
        snapshot.hour = []
        #expect(Health(snapshot).summary == "The node is ready, but surge of token refusals on words, and 6 more")
    }

    @Test func `each problem by itself is a warning`() {
        var route = NodeSnapshot.RouteState(
            name: "a/iOS", breaker: "closed", isSurge: false, inFlight: 0, waiting: 0, answers: [], p50: nil, p99: nil)
        route.record.answered(isDelivered: true, at: 0)
        var stopped = route
        stopped.breaker = "open"
        var surge = route
        surge.isSurge = true
        let tor: NodeSnapshot.Tor = .init(
            address: nil, bootstrap: 100, isPublished: false, onions: [], restarts: 0, warning: nil
        )
        let end = NodeSnapshot.empty().now + Health.expiryNotice - 1
        var invalid = ReloadState()
        _ = invalid.failed(.configuration, "tocsin.toml:3: wrong\ntocsin.toml:4: wrong", at: 0)
        var pending = ReloadState()
        pending.readConfiguration(restartKeys: ["listen", "tor"])
        let changes: [(inout NodeSnapshot) -> Void] = [
            { $0.reload = invalid }, { $0.reload = pending },
            { $0.routes = [route, stopped] }, { $0.routes = [surge] }, { $0.tor = tor },
            { $0.credentials = [.init(app: "a", kind: "APNs certificate", file: "f", expires: end)] },
        ]
        for change in changes {
            var snapshot = NodeSnapshot.empty()
            change(&snapshot)
            #expect(Health(snapshot).grade == .warning && Health(snapshot).reasons.count == 1)
        }
        var snapshot = NodeSnapshot.empty()
        snapshot.routes = [route]
        snapshot.credentials = [.init(app: "a", kind: "APNs certificate", file: "f", expires: end + 1)]
        #expect(Health(snapshot).grade == .good)
    }
}

@Suite(.tags(.computing)) struct RouteChartTests {
    @Test func `few deliveries are not hidden by many retries`() {
        let buckets = [
            NodeSnapshot.Bucket(start: 0, delivered: 174, retry: 5000), NodeSnapshot.Bucket(start: 3600),
            NodeSnapshot.Bucket(start: 7200, delivered: 87, rejected: 600, gone: 194),
        ]
        let text = RouteChart(buckets: buckets).html.text
        #expect(text.contains("261 delivered, 5,794 not delivered"))
        // Each side has a scale of its own: the largest bar has its whole height.
        #expect(text.contains("<path class=\"delivered\" d=\"M0.0 18V1.0H39.0V18zM80.0 18V9.5H119.0V18z\"/>"))
        #expect(text.contains("<path class=\"gone\" d=\"M0.0 18V35.0H39.0V18z"))
        #expect(RouteChart(buckets: []).html.text.contains("0 delivered<br>"))
    }

    @Test func `a chart shows where the node was started`() {
        let buckets = (0..<4).map { NodeSnapshot.Bucket(start: 600 * $0, delivered: 1) }
        func marks(_ starts: [Int64]) -> Int {
            OutcomeChart(name: "c", title: "T", buckets: buckets, width: 600, starts: starts).html.text.matches(
                of: /class="start"/
            ).count
        }
        #expect(marks([]) == 0 && marks([-1, 0, 1200, 2399, 2400]) == 3)
        let text = OutcomeChart(name: "c", title: "T", buckets: buckets, width: 600, starts: [1200]).html.text
        #expect(text.contains("The node was started at 00:20 UTC."))
    }

    @Test func `advice about settings is no alarm`() {
        var snapshot = NodeSnapshot.empty()
        snapshot.alarms = [
            .init(time: snapshot.now, level: "warning", text: "spool.enabled is off", count: 1, isSetUp: true)
        ]
        let page = String(decoding: DashboardPage(snapshot).document, as: UTF8.self)
        #expect(page.contains("No alarms since the start") && !page.contains("in the last hour</a>"))
        #expect(page.contains("<h2>Set-up</h2><ul><li>spool.enabled is off</li></ul>"))
    }
}

@Suite(.tags(.computing)) struct ReloadStateTests {
    @Test func `a failed reload stays a concern until another one succeeds`() {
        var state = ReloadState()
        let text = "tocsin.toml:3: wrong\ntocsin.toml:4: wrong"
        let isNew = state.failed(.configuration, text, at: 100)
        let isNewAgain = state.failed(.configuration, text, at: 200)
        #expect(isNew && !isNewAgain)
        #expect(
            state.concerns.map(\.text) == [
                "the configuration on disk, or a file that it names, cannot be used: tocsin.toml:3: wrong; tocsin.toml:4: wrong; since 1970-01-01 00:01 UTC"
            ])
        // Credentials that can be read say nothing of the configuration.
        state.readCredentials()
        #expect(state.concerns.count == 1)
        _ = state.failed(.credentials, "no such file", at: 300)
        #expect(state.concerns.count == 2)
        state.readConfiguration(restartKeys: ["listen", "tor"])
        #expect(state.concerns == [Concern("settings wait for a restart", "listen, tor", see: .restartPending)])
        state.readConfiguration(restartKeys: [])
        #expect(state.concerns.isEmpty)
    }

    @Test func `each concern names a section that is there`() throws {
        let text = try String(contentsOfFile: "Docs/operations.md", encoding: .utf8)
        for section in Concern.Section.allCases { #expect(text.contains("#### \(section.rawValue)\n"), "\(section)") }
    }
}

@Suite(.tags(.computing)) struct OutcomeChartTests {
    private func chart(_ buckets: [NodeSnapshot.Bucket]) -> String {
        OutcomeChart(name: "c", title: "T", buckets: buckets, width: 60).html.text
    }

    @Test func `the bars of an interval are stacked and fit the scale`() {
        let text = chart([NodeSnapshot.Bucket(start: 0, delivered: 2, rejected: 1, retry: 1)])
        // The axis runs from 148 at the bottom to 10 at the top, for four outcomes.
        for (part, bottom, top) in [
            ("delivered", "148.0", "79.0"), ("retry", "79.0", "44.5"), ("rejected", "44.5", "10.0"),
        ] {
            #expect(text.contains("<path fill=\"url(#c-\(part))\" d=\"M38.0 \(bottom)V\(top)H407.0V\(bottom)z\"/>"))
        }
        #expect(!text.contains("<path fill=\"url(#c-gone)\""))
    }

    @Test(arguments: [(0, "2"), (1, "2"), (3, "4"), (5, "10"), (11, "20"), (99, "100"), (101, "200"), (10_001, "20k")])
    func `the scale ends at a round number`(_ count: Int, _ top: String) {
        #expect(chart([NodeSnapshot.Bucket(start: 0, gone: count)]).contains("text-anchor=\"end\">\(top)</text>"))
    }

    @Test func `the chart has a text alternative`() {
        let text = chart([
            NodeSnapshot.Bucket(start: 0, delivered: 1), NodeSnapshot.Bucket(start: 60, delivered: 1, gone: 2),
        ])
        #expect(
            text.contains(
                "<desc id=\"c-desc\">2 delivered, 0 told to retry, 0 rejected, 2 gone. Peak: 3 in the "
                    + "interval from 00:01 UTC.</desc>"))
        #expect(text.contains("<title>00:01–00:02: 1 delivered, 2 gone</title>"))
        #expect(chart([]).contains("No outcomes in this period."))
    }
}

@Suite(.tags(.computing)) struct FormatTests {
    @Test(arguments: [
        (0, "0"), (7, "7"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567"), (-1000, "−1,000"),
        (Int.min, "−9,223,372,036,854,775,808"),
    ])
    func `a count has thousands separators`(_ number: Int, _ text: String) { #expect(Format.count(number) == text) }

    @Test(arguments: [
        (0.0, "0.0 µs"), (8.5e-5, "85 µs"), (9.949e-3, "9.9 ms"), (0.012, "12 ms"), (0.9996, "1.0 s"), (1.24, "1.2 s"),
        (12.6, "13 s"), (1000, "1,000 s"), (1e300, "1,000,000,000 s"), (-1, "–"), (.nan, "–"), (.infinity, "–"),
    ])
    func `a latency has a suitable unit`(_ seconds: Double, _ text: String) {
        #expect(Format.latency(seconds) == text)
    }

    @Test(arguments: [
        (-5, "0 seconds"), (1, "1 second"), (59, "59 seconds"), (60, "1 minute"), (119, "1 minute"),
        (3600, "1 hour"), (3660, "1 hour 1 minute"), (90_061, "1 day 1 hour"), (172_800, "2 days"),
    ])
    func `a time span has at most two parts`(_ seconds: Int64, _ text: String) { #expect(Format.span(seconds) == text) }

    @Test(arguments: [
        (1, "1 byte"), (1023, "1,023 bytes"), (1024, "1.0 KiB"), (1 << 20, "1.0 MiB"), (5 << 40, "5120.0 GiB"),
    ])
    func `a size has a suitable unit`(_ bytes: Int, _ text: String) { #expect(Format.bytes(bytes) == text) }

    @Test func `dates match the calendar`() {
        let format = Date.ISO8601FormatStyle(timeZone: .gmt).year().month().day()
        for day in stride(from: Int64(-1000), through: 40_000, by: 1) {
            let time = day * 86_400 + 86_399
            #expect(Format.date(time) == Date(timeIntervalSince1970: Double(time)).formatted(format))
        }
        #expect(Format.date(.max) == "9999-12-31" && Format.date(.min / 2) == "0001-01-01")
        #expect(Format.clockWithSeconds(86_399) == "23:59:59" && Format.clock(-1) == "23:59")
    }
}

@Suite(.tags(.computing)) struct StatusJSONTests {
    private func object(_ text: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    }

    @Test func `readiness has a status, and reasons if the node is not ready`() throws {
        var snapshot = NodeSnapshot.empty()
        #expect(StatusJSON.readiness(snapshot) == (200, #"{"ready":true}"#))
        snapshot.notReady = [Concern("no \"route\""), Concern("two")]
        let (status, body) = StatusJSON.readiness(snapshot)
        #expect(status == 503)
        let object = try object(body)
        #expect(object["ready"] as? Bool == false && object["reasons"] as? [String] == ["no \"route\"", "two"])
    }

    @Test func `status.json has fixed field names`() throws {
        let object = try object(StatusJSON.status(.sample("w\"\\\n")))
        #expect(
            object.keys.sorted() == [
                "alarms", "canary", "circuits", "cluster", "connections", "credentials", "day", "handles", "health",
                "hour",
                "in_flight",
                "latencies", "machine", "name", "now", "puzzle_effort", "ready", "reasons", "refusals", "reload",
                "routes", "spool", "starts", "tor", "upstreams", "uptime_seconds", "version",
            ])
        // Each name is documented.
        let page = try String(contentsOfFile: "Docs/json.md", encoding: .utf8)
        func check(_ value: Any) {
            for (name, member) in value as? [String: Any] ?? [:] {
                #expect(page.contains("`\(name)`"), "\(name)")
                // Its members are the push service's answers.
                if name != "answers" { check(member) }
            }
            for element in value as? [Any] ?? [] { check(element) }
        }
        check(object)
        func names(_ key: String) -> [String]? {
            ((object[key] as? [[String: Any]])?.first ?? object[key] as? [String: Any])?.keys.sorted()
        }
        #expect(names("hour") == ["delivered", "gone", "rejected", "retry", "start"])
        #expect(names("latencies") == ["p50_seconds", "p90_seconds", "p99_seconds", "stage"])
        #expect(
            names("routes") == [
                "answers", "breaker", "hours", "in_flight", "last_delivery", "name", "next_probe_seconds",
                "p50_seconds",
                "p99_seconds", "probe", "refusal_wave", "shut_after", "shut_since", "state", "token_refusal_surge",
                "waiting",
            ])
        #expect(names("credentials") == ["app", "expires", "file", "kind"])
        #expect(names("tor") == ["address", "bootstrap_percent", "onions", "published", "restarts", "warning"])
        #expect(
            names("cluster") == [
                "available", "clock_offset_seconds", "nodes", "problem", "round_trip_seconds", "seconds", "slow",
            ])
        #expect(names("canary") == ["delivered", "every_seconds", "last_success", "text"])
        #expect(
            names("upstreams") == ["app", "connections", "failure", "node", "puzzle_effort", "reachable"])
        #expect(names("alarms") == ["count", "level", "set_up", "text", "time"])
        #expect(names("refusals") == ["last_hour", "reason", "total"])
        #expect(object["version"] as? String == "w\"\\\n" && object["in_flight"] as? Int == 1234)
        #expect((object["hour"] as? [Any])?.count == 60)
    }

    @Test func `absent and non-finite values are null`() throws {
        var snapshot = NodeSnapshot.empty()
        snapshot.latencies = [.init(stage: "s", p50: .nan, p90: .infinity, p99: nil)]
        let object = try object(StatusJSON.status(snapshot))
        #expect(object["spool"] is NSNull && object["tor"] is NSNull)
        let latency = try #require((object["latencies"] as? [[String: Any]])?.first)
        #expect(latency["p50_seconds"] is NSNull && latency["p90_seconds"] is NSNull)
    }
}
