// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Prometheus
import TNP
import TestSupport
import Testing
import Time

@testable import AdminPort
@testable import Admission
@testable import Cluster
@testable import Delivery
@testable import NodeConfiguration
@testable import Providers
@testable import TocsinNode
@testable import Tor

@Suite(.tags(.sockets)) struct NodeMetricsTests {
    private let registry = PrometheusRegistry(NodeMetrics.catalogue)
    private static let idle = DispatchStatistics(inFlight: 0, stored: nil, shortage: nil, lanes: [])
    private let route = Route(app: "bisq", magic: .iOS)
    private let labels = ["app": "bisq", "magic": "iOS"]

    private func state(_ state: Breaker.State) -> Double? {
        registry.value("tocsin_breaker_state", labels: labels.merging(["state": state.rawValue]) { $1 })
    }

    private func countAttempt(_ route: Route, _ answer: String = "accepted", in metrics: NodeMetrics) {
        metrics.count(
            EndedAttempt(
                route: route, phone: DeviceIdentity([1, 2, 3], of: .android), waited: .milliseconds(2),
                took: .milliseconds(300)),
            AttemptResult(.delivered(id: "x"), disposition: .delivered, answer: answer))
    }

    /// Expects that the registry has dropped no metric.
    private func expectNoneDropped() {
        #expect(registry.sum("tocsin_metrics_dropped_total") == 0)
    }

    @Test func `exactly one of a breaker's three states is 1, from the start`() {
        let metrics = NodeMetrics(registry)
        metrics.count(.serving(route))
        #expect(state(.closed) == 1)
        #expect(state(.open) == 0)
        metrics.count(.breaker(route, .open, answer: "BadTopic"))
        #expect(state(.closed) == 0)
        #expect(state(.open) == 1)
        #expect(state(.halfOpen) == 0)
        expectNoneDropped()
    }

    @Test func `refusals are counted by protocol and reason, and circuit blocks in total`() {
        let metrics = NodeMetrics(registry)
        for _ in 0..<2 { metrics.refused(Refusal(.retry(.deviceTokenOverRate, after: 1)), at: "tnp") }
        metrics.refused(Refusal(.gone(since: nil)), at: "http")
        metrics.refused(Refusal(nil, goAway: GoAway(code: .abuse)), at: "tnp")
        metrics.countAbuse()
        let name = "tocsin_refusals_total"
        #expect(registry.value(name, labels: ["protocol": "tnp", "reason": "device_token_over_rate"]) == 2)
        #expect(registry.value(name, labels: ["protocol": "http", "reason": "unregistered"]) == 1)
        #expect(registry.sum(name) == 3)
        #expect(registry.value("tocsin_abuse_blocks_total") == 1)
        expectNoneDropped()
    }

    @Test func `each reason has a unique name of lower-case letters and underscores`() {
        let names = Reason.known.map(\.name)
        #expect(Set(names).count == names.count)
        for name in names {
            #expect(!name.isEmpty && name.utf8.allSatisfy { $0 == 0x5F || (0x61...0x7A).contains($0) })
        }
        #expect(Reason(rawValue: 999).name == "reason_999")
    }

    @Test func `the gauges show efforts, device tokens, circuits and connections`() {
        let metrics = NodeMetrics(registry)
        let known = Admission.Counts(proven: 5, unproven: 4, dead: 2, circuits: 13)
        metrics.show((all: 5, unproven: 7), known: known)
        metrics.show((all: 0, unproven: 3), known: Admission.Counts(proven: 6, unproven: 3, dead: 1, circuits: 12))
        metrics.show(Self.idle, connections: (tnp: 16, http: 2), tokenAges: [:])
        #expect(registry.value("tocsin_puzzle_effort", labels: ["scope": "all"]) == 0)
        #expect(registry.value("tocsin_puzzle_effort", labels: ["scope": "unproven"]) == 3)
        for (standing, count) in [("proven", 6.0), ("unknown", 3), ("dead", 1)] {
            #expect(registry.value("tocsin_device_tokens", labels: ["standing": standing]) == count)
        }
        #expect(registry.value("tocsin_circuits") == 12)
        #expect(registry.value("tocsin_connections", labels: ["protocol": "tnp"]) == 16)
        #expect(registry.value("tocsin_connections", labels: ["protocol": "http"]) == 2)
        expectNoneDropped()
    }

    @Test func `the catalogue has no flaw`() {
        #expect(MetricFamily.flaw(in: NodeMetrics.catalogue) == nil)
    }

    @Test func `attempts are counted by the push service's answer, with durations`() {
        let metrics = NodeMetrics(registry)
        for _ in 0..<3 { countAttempt(route, in: metrics) }
        countAttempt(Route(app: "bisq", magic: .android), "UNREGISTERED", in: metrics)
        countAttempt(Route(app: "bisq", magic: .iOSDev), "BadDeviceToken", in: metrics)
        let name = "tocsin_provider_results_total"
        for (provider, environment, reason, count) in [
            ("apns", "production", "accepted", 3.0), ("apns", "development", "BadDeviceToken", 1),
            ("fcm", "production", "UNREGISTERED", 1),
        ] {
            let labels = ["app": "bisq", "provider": provider, "environment": environment, "reason": reason]
            #expect(registry.value(name, labels: labels) == count)
        }
        let queue = registry.snapshot("tocsin_stage_duration_seconds", where: ["stage": "queue"])
        #expect(queue?.count == 5)
        #expect(queue.map { abs($0.sum - 0.01) < 0.0001 } == true)
        let apple = registry.snapshot("tocsin_provider_duration_seconds", where: ["provider": "apns"])
        #expect(apple?.count == 4)
        expectNoneDropped()
    }

    @Test func `envelopes are counted by protocol and outcome, including recovered ones`() throws {
        let metrics = NodeMetrics(registry)
        for kind in Outcome.Kind.allCases { metrics.answered(Outcome(kind), of: route, at: "http") }
        let envelope = try Envelope(
            magic: .iOS, deviceToken: Array("0a".utf8)[...], iv: Array("0123456789abcdef".utf8)[...],
            ciphertext: [UInt8](repeating: 1, count: 16)[...], format: .pipe)
        metrics.count(.recovered(envelope, app: "bisq", .delivered()))
        let name = "tocsin_envelopes_total"
        #expect(registry.sum(name, where: ["protocol": "http"]) == 5)
        #expect(
            registry.value(name, labels: labels.merging(["protocol": "spool", "outcome": "delivered"]) { $1 }) == 1)
        expectNoneDropped()
    }

    @Test func `a route that is no longer served frees its series`() {
        let metrics = NodeMetrics(registry)
        for number in 0..<1000 {
            let route = Route(app: "app\(number)", magic: .android)
            metrics.count(.serving(route))
            countAttempt(route, in: metrics)
            metrics.count(.tokenRefusalSurge(route, isActive: true))
            metrics.answered(.delivered(), of: route, at: "tnp")
            metrics.forget(route)
        }
        expectNoneDropped()
        #expect(registry.sum("tocsin_envelopes_total") == 0)
    }

    @Test func `routes of one app at an upstream node have series of their own`() {
        let metrics = NodeMetrics(registry)
        let phones = [Magic.iOS, .iOSDev, .android].map { Route(app: "bisq", magic: $0) }
        metrics.relayed = Set(phones)
        for (index, route) in phones.enumerated() {
            for _ in 0...index { countAttempt(route, in: metrics) }
        }
        let name = "tocsin_provider_results_total"
        #expect(registry.sums(name, by: "provider") == ["upstream-apns": 3, "upstream-fcm": 3])
        metrics.forget(phones[0])
        #expect(registry.sums(name, by: "provider") == ["upstream-apns": 2, "upstream-fcm": 3])
        countAttempt(phones[2], in: metrics)
        #expect(registry.sum(name, where: ["provider": "upstream-fcm"]) == 4)
        expectNoneDropped()
    }

    @Test func `all families of the catalogue are written, with their own labels`() {
        let metrics = NodeMetrics(registry)
        metrics.count(.serving(route))
        metrics.count(.spoolUnreadable(1))
        metrics.count(.spoolRefused("full"))
        metrics.count(.tokenRefusalSurge(route, isActive: true))
        countAttempt(route, in: metrics)
        metrics.answered(.delivered(), of: route, at: "tnp")
        metrics.refused(Refusal(.gone(since: nil)), at: "http")
        metrics.responded(200)
        metrics.countAbuse()
        for stage in NodeMetrics.Stage.allCases { metrics.record(.seconds(1), in: stage) }
        metrics.show((all: 0, unproven: 1), known: Admission.Counts(proven: 0, unproven: 0, dead: 0, circuits: 0))
        metrics.show(handles: 1)
        metrics.show(expiry: 1, of: "bisq", kind: "APNs certificate")
        metrics.show(Self.idle, connections: (tnp: 0, http: 0), tokenAges: ["bisq": 2])
        metrics.show([(app: "bisq", node: UpstreamStatus(node: .tcp(host: "localhost", port: 7077)))])
        metrics.show(
            Engine.Status(since: .now, roundTrip: .seconds(1), clockOffset: .seconds(1)))
        metrics.decided(alone: true)
        metrics.decided(alone: false)
        metrics.show(canary: Configuration.Canary(phoneFile: "phone", interval: 60), since: 1)
        metrics.show(canary: NodeSnapshot.Attempt(isDelivered: true, text: ""), lastSuccess: 1)
        metrics.show(TorStatus())
        metrics.show(ReloadState())
        metrics.countLostKeyHolder()
        metrics.countRefusedCall()
        expectNoneDropped()
        let text = String(decoding: metrics.exposition, as: UTF8.self)
        for family in NodeMetrics.catalogue { #expect(text.contains("# TYPE \(family.name) "), "\(family.name)") }
    }

    @Test func `what a push service has refused is no rejection at admission`() {
        let metrics = NodeMetrics(registry)
        for reason in [Reason.unregistered, .badDeviceToken, .connectionOverRate, .platformNotConfigured] {
            metrics.refused(Refusal(Outcome(.rejected, reason: reason)), at: "tnp")
        }
        #expect(metrics.recentRefusals.filter { $0.total > 0 }.count == 2)
        #expect(metrics.totals.refusals.values.reduce(0, +) == 4)
    }

    @Test func `a removed certificate or token is no longer shown`() {
        let metrics = NodeMetrics(registry)
        metrics.show(expiry: 1, of: "bisq", kind: "APNs certificate")
        metrics.show(Self.idle, connections: (tnp: 0, http: 0), tokenAges: ["bisq": 2])
        let labels = ["app": "bisq", "kind": "APNs certificate"]
        metrics.keep(tokensOf: ["bisq"], certificatesOf: ["bisq"])
        #expect(registry.value("tocsin_credential_expiry_timestamp_seconds", labels: labels) == 1)
        metrics.keep(tokensOf: [], certificatesOf: [])
        #expect(registry.value("tocsin_credential_expiry_timestamp_seconds", labels: labels) == nil)
        #expect(registry.value("tocsin_apns_token_age_seconds", labels: ["app": "bisq"]) == nil)
        expectNoneDropped()
    }

    @Test func `HTTP responses are counted by status`() {
        let metrics = NodeMetrics(registry)
        for status in [200, 200, 400, 503] { metrics.responded(status) }
        #expect(registry.value("tocsin_http_responses_total", labels: ["status": "200"]) == 2)
        expectNoneDropped()
    }
}
