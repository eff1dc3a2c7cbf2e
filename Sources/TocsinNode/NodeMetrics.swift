import Delivery
import Metrics
import Providers

/// What the node counts (swift-metrics): nothing that names a phone or a sender, and no label that a sender can invent.
struct NodeMetrics {
    /// Counts what has happened.
    func count(_ event: DispatchEvent) {
        switch event {
        case .attempt(let route, _, let verdict):
            Counter(label: "tocsin_attempts_total", dimensions: Self.labels(route) + [("answer", verdict.answer)])
                .increment()
        case .finished(let route, let outcome):
            Counter(label: "tocsin_envelopes_total", dimensions: Self.labels(route) + [("outcome", "\(outcome.kind)")])
                .increment()
        case .breaker(let route, let state, _):
            // One of the three is 1.
            for each in Breaker.State.allCases {
                Gauge(label: "tocsin_breaker_state", dimensions: Self.labels(route) + [("state", each.rawValue)])
                    .record(each == state ? 1 : 0)
            }
        case .wave(let route, let isActive):
            Gauge(label: "tocsin_refusal_wave", dimensions: Self.labels(route)).record(isActive ? 1 : 0)
        case .spoolRefused: Counter(label: "tocsin_spool_refusals_total").increment()
        case .spoolUnreadable(let count):
            Counter(label: "tocsin_spool_unreadable_total").increment(by: Int64(count))
        }
    }

    private static func labels(_ route: Route) -> [(String, String)] {
        [("app", route.app), ("magic", route.magic.rawValue)]
    }
}
