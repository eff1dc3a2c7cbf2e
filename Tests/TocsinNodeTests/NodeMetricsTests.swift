import Delivery
import MetricsTestKit
import Providers
import TNP
import Testing

@testable import Admission
@testable import TocsinNode

@Suite struct NodeMetricsTests {
    private let recorder = TestMetrics()
    private let route = Route(app: "bisq", magic: .iOS)
    private let labels = [("app", "bisq"), ("magic", "iOS")]

    private func state(_ state: Breaker.State) throws -> Double? {
        try recorder.expectGauge("tocsin_breaker_state", labels + [("state", state.rawValue)]).lastValue
    }

    @Test func `one of a breaker's three states is 1, from the first moment on`() throws {
        var metrics = NodeMetrics(factory: recorder)
        metrics.count(.serving(route))
        #expect(try state(.closed) == 1)
        #expect(try state(.open) == 0)
        metrics.count(.breaker(route, .open, answer: "BadTopic"))
        #expect(try state(.closed) == 0)
        #expect(try state(.open) == 1)
        #expect(try state(.halfOpen) == 0)
    }

    @Test func `refusals are counted by their reason, and circuits that are sent away`() throws {
        var metrics = NodeMetrics(factory: recorder)
        for _ in 0..<2 { metrics.refused(Refusal(.retry(.deviceTokenOverRate, after: 1))) }
        metrics.refused(Refusal(.gone(since: nil)))
        metrics.refused(Refusal(nil, goAway: GoAway(code: .abuse)))
        metrics.countAbuse()
        let overRate = try recorder.expectCounter("tocsin_refusals_total", [("reason", "200")])
        #expect(overRate.totalValue == 2)
        let gone = try recorder.expectCounter("tocsin_refusals_total", [("reason", "304")])
        #expect(gone.totalValue == 1)
        #expect(try recorder.expectCounter("tocsin_abuse_total").totalValue == 1)
    }

    @Test func `efforts, device tokens, circuits and connections are shown as they are`() throws {
        let metrics = NodeMetrics(factory: recorder)
        metrics.show((all: 5, unproven: 7), known: (deviceTokens: 11, circuits: 13), connections: 17)
        metrics.show((all: 0, unproven: 3), known: (deviceTokens: 10, circuits: 12), connections: 16)
        #expect(try recorder.expectGauge("tocsin_puzzle_effort", [("asked_of", "all")]).lastValue == 0)
        #expect(try recorder.expectGauge("tocsin_puzzle_effort", [("asked_of", "unproven")]).lastValue == 3)
        #expect(try recorder.expectGauge("tocsin_device_tokens").lastValue == 10)
        #expect(try recorder.expectGauge("tocsin_circuits").lastValue == 12)
        #expect(try recorder.expectGauge("tocsin_connections").lastValue == 16)
    }

    @Test func `attempts are counted by the provider's word, envelopes by their outcome`() throws {
        var metrics = NodeMetrics(factory: recorder)
        let verdict = Verdict(.delivered(id: "x"), ruling: .delivered, answer: "accepted")
        for _ in 0..<3 { metrics.count(.attempt(route, deviceToken: [1, 2, 3], verdict)) }
        metrics.count(.finished(route, verdict.outcome))
        let attempts = try recorder.expectCounter("tocsin_attempts_total", labels + [("answer", "accepted")])
        #expect(attempts.totalValue == 3)
        let envelopes = try recorder.expectCounter("tocsin_envelopes_total", labels + [("outcome", "delivered")])
        #expect(envelopes.totalValue == 1)
    }
}
