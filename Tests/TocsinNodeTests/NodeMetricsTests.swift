import Delivery
import MetricsTestKit
import Providers
import TNP
import Testing

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
