// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing
import Time

@testable import AdminPort
@testable import TocsinNode
@testable import tocsin

/// What an operator sees in each state of a node: at `/readyz`, in the headline, in `tocsin status`, in the log, and by alert.
@Suite(.tags(.computing)) struct NodeStatesTests {
    private static let now: Int64 = 1_790_000_000

    private static func route(
        _ name: String, credential: String, deliveredAgo: Int64? = nil, shutAfter answer: String? = nil
    ) -> NodeSnapshot.RouteState {
        var route = NodeSnapshot.RouteState(name: name)
        route.app = "bisq"
        route.credential = credential
        if let deliveredAgo { route.record.answered(isDelivered: true, at: now - deliveredAgo) }
        if let answer {
            route.breaker = "open"
            route.nextProbe = 30
            route.record.breakerChanged(isClosed: false, after: answer, at: now - 600)
        }
        return route
    }

    /// A node that serves both services and has delivered on both.
    private static func snapshot(_ change: (inout NodeSnapshot) -> Void) -> NodeSnapshot {
        var snapshot = NodeSnapshot(now: now)
        snapshot.version = "1.1.0"
        snapshot.hour = [NodeSnapshot.Bucket(start: now, delivered: 9)]
        snapshot.routes = [
            route("bisq/android", credential: "bisq/fcm", deliveredAgo: 60),
            route("bisq/iOS", credential: "bisq/apns", deliveredAgo: 60),
        ]
        change(&snapshot)
        snapshot.notReady += NodeSnapshot.reasonsNotReady(snapshot.routes, at: now)
        return snapshot
    }

    private static let states: [(name: String, snapshot: NodeSnapshot)] = [
        (
            "nothing tried",
            snapshot {
                $0.routes = [route("bisq/android", credential: "bisq/fcm"), route("bisq/iOS", credential: "bisq/apns")]
                $0.hour = []
            }
        ),
        ("all well", snapshot { _ in }),
        (
            "a key that Apple does not know, before the first notification",
            snapshot {
                $0.routes = [route("bisq/android", credential: "bisq/fcm"), route("bisq/iOS", credential: "bisq/apns")]
                $0.routes[1].record.probe = .init(time: now - 9, verdict: .bad, answer: "InvalidProviderToken")
                $0.hour = []
            }
        ),
        (
            "one of two services down",
            snapshot {
                $0.routes[0] = route(
                    "bisq/android", credential: "bisq/fcm", deliveredAgo: 900, shutAfter: "UNAVAILABLE")
            }
        ),
        (
            "all down",
            snapshot {
                $0.routes = [
                    route("bisq/android", credential: "bisq/fcm", deliveredAgo: 900, shutAfter: "UNAVAILABLE"),
                    route("bisq/iOS", credential: "bisq/apns", deliveredAgo: 900, shutAfter: "ServiceUnavailable"),
                ]
            }
        ),
        (
            "credential expired",
            snapshot {
                $0.credentials = [.init(app: "bisq", kind: "APNs certificate", file: "a.p12", expires: now - 3600)]
                $0.routes[1] = route("bisq/iOS", credential: "bisq/apns", deliveredAgo: 3700, shutAfter: "unreachable")
            }
        ),
        (
            "clock wrong",
            snapshot {
                $0.routes[1] = route(
                    "bisq/iOS", credential: "bisq/apns", deliveredAgo: 900, shutAfter: "ExpiredProviderToken")
            }
        ),
        (
            "disk full",
            snapshot {
                $0.notReady = [Concern("the spool takes no more envelopes", "the disk is full", see: .spoolRefuses)]
            }
        ),
        (
            "tor gone",
            snapshot {
                $0.notReady = [Concern("the onion cannot be reached", "tor has ended", see: .onionNotPublished)]
            }
        ),
        (
            "engine gone",
            snapshot {
                $0.cluster = .init(
                    isAvailable: false, isSlow: false, problem: "connection refused", seconds: 60, roundTrip: nil,
                    clockOffset: nil, nodes: [])
            }
        ),
        (
            "configuration broken on disk",
            snapshot { _ = $0.reload.failed(.configuration, "tocsin.toml:3: limits.circuits: is 3", at: now - 60) }
        ),
        ("restart pending", snapshot { $0.reload.readConfiguration(restartKeys: ["listen"]) }),
    ]

    @Test func `each state looks the same everywhere, and the table in operations.md says how`() throws {
        let rules = try String(contentsOfFile: "Docs/operations/alerts.yml", encoding: .utf8)
        var rows = ["| state | `/readyz` | headline | alert |", "|---|---|---|---|"]
        for (name, snapshot) in Self.states {
            let health = Health(snapshot)
            let readiness = StatusJSON.readiness(snapshot)
            let status = try NodeStatus(json: Array(StatusJSON.status(snapshot).utf8))
            #expect(status.lines.first == "\(health.grade): \(health.summary)", "\(name)")
            #expect(status.ready == (readiness.status == 200), "\(name)")
            // The state before was another one.
            var notices = HealthNotices()
            _ = notices.due(for: Health(Self.snapshot { $0.notReady = [Concern("the node is starting")] }), at: .now)
            #expect(notices.due(for: health, at: .now + .seconds(60))?.notice == health.notice, "\(name)")
            let page = String(decoding: DashboardPage(snapshot).document, as: UTF8.self)
            #expect(page.contains("<h2>\(health.summary)</h2>"), "\(name)")
            for section in health.sections { #expect(rules.contains("- alert: \(section.rawValue)\n"), "\(name)") }
            let alerts = health.sections.map { "[\($0.rawValue)](#\($0.rawValue.lowercased()))" }
            rows.append(
                "| \(name) | \(readiness.status) | \(health.grade): \(health.summary) | \(alerts.joined(separator: ", ")) |"
            )
        }
        let text = try String(contentsOfFile: "Docs/operations.md", encoding: .utf8)
        let table = rows.joined(separator: "\n")
        let isThere = text.contains("<!-- states -->\n\n\(table)\n")
        if !isThere { print(table) }
        #expect(isThere, "operations.md needs the table that `swift test --filter NodeStatesTests` prints")
    }
}
