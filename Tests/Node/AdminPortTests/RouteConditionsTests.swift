// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import AdminPort

@Suite(.tags(.computing)) struct RouteConditionsTests {
    private static let now: Int64 = 1_790_000_000

    /// A route of an app; its credential is the part of its name before the dash.
    private static func route(
        _ name: String, credential: String? = nil, deliveredAgo: Int64? = nil, shutFor: Int64? = nil,
        after answer: String = "InvalidProviderToken"
    ) -> NodeSnapshot.RouteState {
        var route = NodeSnapshot.RouteState(name: name)
        route.app = String(name.prefix { $0 != "/" })
        route.credential = credential ?? name
        if let deliveredAgo { route.record.answered(isDelivered: true, at: now - deliveredAgo) }
        if let shutFor {
            route.breaker = "open"
            route.nextProbe = 240
            route.record.breakerChanged(isClosed: false, after: answer, at: now - shutFor)
        }
        return route
    }

    private func health(_ routes: [NodeSnapshot.RouteState]) -> Health {
        var snapshot = NodeSnapshot(now: Self.now)
        snapshot.routes = routes
        snapshot.notReady = NodeSnapshot.reasonsNotReady(routes, at: Self.now)
        return Health(snapshot)
    }

    @Test func `nothing works before it was tried`() {
        let health = health([Self.route("bisq/iOS"), Self.route("bisq/android")])
        #expect(health.grade == .untried && health.reasons.isEmpty)
        #expect(health.summary == "The node is ready; nothing was sent yet")
    }

    @Test func `an untried route is a note beside those that work`() {
        let health = health([Self.route("bisq/iOS", deliveredAgo: 5), Self.route("bisq/android")])
        #expect(health.grade == .good && health.reasons == ["not tried yet: bisq/android"])
    }

    @Test func `an environment that was never used shares the fate of its credential`() {
        // Apple refuses the credential, Google is down, and nobody has ever used the development environment.
        let routes = [
            Self.route("bisq/iOS", credential: "apns", shutFor: 5), Self.route("bisq/iOSDev", credential: "apns"),
            Self.route("bisq/android", shutFor: 5, after: "UNAVAILABLE"),
        ]
        #expect(RouteConditions(routes, at: Self.now).routes.map(\.condition) == [.shut, .suspect, .shut])
        let health = health(routes)
        #expect(health.grade == .bad)
        #expect(
            health.summary
                == "The node is not ready: no push service works for bisq (InvalidProviderToken, UNAVAILABLE)")
        #expect(
            health.reasons.first?.hasPrefix(
                "no push service works for bisq (InvalidProviderToken, UNAVAILABLE): bisq/iOS is shut after the answer InvalidProviderToken since "
            ) == true
        )
        #expect(health.reasons.first?.contains("bisq/android is shut after the answer UNAVAILABLE") == true)
    }

    @Test func `a probe shows whether a credential works before the first notification`() {
        var (apple, google, development) = (
            Self.route("bisq/iOS"), Self.route("bisq/android"), Self.route("bisq/iOSDev")
        )
        development.isOptional = true
        google.record.probe = RouteRecord.Probe(time: Self.now - 9, verdict: .good, answer: "UNREGISTERED")
        #expect(RouteConditions([google], at: Self.now).routes[0].condition == .probed)
        #expect(health([google]).grade == .untried)

        apple.record.probe = RouteRecord.Probe(time: Self.now - 9, verdict: .bad, answer: "InvalidProviderToken")
        let warned = health([apple, google])
        #expect(warned.grade == .warning)
        #expect(warned.summary == "The node is ready, but bisq/iOS fails a probe (InvalidProviderToken)")
        #expect(
            warned.reasons.first?.hasSuffix(
                "answered a probe with InvalidProviderToken at 2026-09-21 14:13 UTC; no phone was rung") == true)
        #expect(
            health([apple]).summary == "The node is not ready: no push service works for bisq (InvalidProviderToken)")
        // An answer to a notification says more than an earlier probe.
        apple.record.answered(isDelivered: true, at: Self.now)
        #expect(health([apple]).grade == .good)

        // Only builds from Xcode need it.
        development.record.probe = RouteRecord.Probe(time: Self.now, verdict: .bad, answer: "BadEnvironmentKeyInToken")
        let noted = health([apple, development])
        #expect(noted.grade == .good && noted.reasons.count == 1, "\(noted.reasons)")
        // It neither hides that nothing was sent, nor serves users whose environment fails.
        #expect(health([google, development]).grade == .untried)
        var probed = development
        probed.record.probe = .init(time: Self.now, verdict: .good, answer: "BadDeviceToken")
        #expect(health([Self.route("bisq/iOS", shutFor: 5), probed]).grade == .bad)
    }

    @Test func `an environment that works does not share it`() {
        let routes = [
            Self.route("bisq/iOS", credential: "apns", shutFor: 500),
            Self.route("bisq/iOSDev", credential: "apns", deliveredAgo: 5),
        ]
        #expect(health(routes).grade == .warning)
    }

    @Test func `a route that delivered today and is shut for a minute is an incident`() {
        let working = Self.route("bisq/android", deliveredAgo: 5)
        for (delivered, shut, grade) in [
            (3600, 60, Health.Grade.bad), (3600, 59, .warning), (86_400, 600, .warning), (86_399, 600, .bad),
        ] as [(Int64, Int64, Health.Grade)] {
            let health = health([Self.route("bisq/iOS", deliveredAgo: delivered, shutFor: shut), working])
            #expect(health.grade == grade, "\(delivered) \(shut)")
        }
        let health = health([Self.route("bisq/iOS", deliveredAgo: 3600, shutFor: 720), working])
        #expect(health.summary == "Nothing is delivered on bisq/iOS: InvalidProviderToken")
        #expect(health.reasons.first?.contains(" (12 minutes), next attempt in 4 minutes") == true)
    }

    @Test func `the node is not ready if nothing else serves the app`() {
        let missed = Self.route("bisq/iOS", deliveredAgo: 3600, shutFor: 60)
        // Nobody knows whether the untried route works.
        #expect(NodeSnapshot.reasonsNotReady([missed, Self.route("bisq/android")], at: Self.now).count == 1)
        #expect(
            NodeSnapshot.reasonsNotReady([missed, Self.route("bisq/android", deliveredAgo: 9)], at: Self.now).isEmpty)
        // Another app does not help its users.
        #expect(
            NodeSnapshot.reasonsNotReady([missed, Self.route("haveno/android", deliveredAgo: 9)], at: Self.now).count
                == 1)
        // Without anybody who misses it, an untried route may serve.
        #expect(
            NodeSnapshot.reasonsNotReady(
                [Self.route("bisq/iOS", shutFor: 60), Self.route("bisq/android")], at: Self.now
            )
            .isEmpty)
    }

    @Test func `a stranger who shuts his own push server shuts no route`() {
        var web = Self.route("bisq/web", deliveredAgo: 3600, shutFor: 600)
        web.hasLanePerServer = true
        #expect(health([web]).grade == .good)
        web.record = RouteRecord()
        #expect(health([web]).grade == .untried)
    }

    @Test func `a probe that fails keeps the beginning, and a success ends it`() {
        var record = RouteRecord()
        record.breakerChanged(isClosed: false, after: "a", at: 10)
        record.breakerChanged(isClosed: false, after: "b", at: 20)
        #expect(record.shut?.since == 10 && record.shut?.answer == "b")
        record.breakerChanged(isClosed: true, after: "accepted", at: 30)
        #expect(record.shut == nil && record.lastAnswer == nil)
        record.answered(isDelivered: false, at: 40)
        #expect(record.lastAnswer == 40 && record.lastDelivery == nil)
        record.answered(isDelivered: true, at: 50)
        record.breakerChanged(isClosed: false, after: "a", at: 60)
        record.servedAnew()
        #expect(record.lastAnswer == nil && record.shut == nil && record.lastDelivery == 50)
    }
}
