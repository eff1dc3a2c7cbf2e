import Delivery
import Metrics
import Providers

/// What the node counts (swift-metrics): nothing that names a phone or a sender, and no label that a sender can invent.
struct NodeMetrics {
    private struct Key: Hashable {
        let label: String
        let route: Route
        let value: String
    }

    /// Counters are made once: the combinations are bounded by the routes and the rows of the outcome tables.
    private var counters: [Key: Counter] = [:]
    private let spoolRefusals = Counter(label: "tocsin_spool_refusals_total")
    private let spoolUnreadable = Gauge(label: "tocsin_spool_unreadable")

    /// Counts what has happened.
    mutating func count(_ event: DispatchEvent) {
        switch event {
        case .serving(let route): show(.closed, of: route)
        case .attempt(let route, _, let verdict): increment("tocsin_attempts_total", route, "answer", verdict.answer)
        case .finished(let route, let outcome):
            increment("tocsin_envelopes_total", route, "outcome", outcome.kind.name)
        case .breaker(let route, let state, _): show(state, of: route)
        case .wave(let route, let isActive):
            Gauge(label: "tocsin_refusal_wave", dimensions: Self.labels(route)).record(isActive ? 1 : 0)
        case .spoolRefused: spoolRefusals.increment()
        case .spoolUnreadable(let count): spoolUnreadable.record(count)
        }
    }

    /// One of the three is 1.
    private func show(_ state: Breaker.State, of route: Route) {
        for each in Breaker.State.allCases {
            Gauge(label: "tocsin_breaker_state", dimensions: Self.labels(route) + [("state", each.rawValue)])
                .record(each == state ? 1 : 0)
        }
    }

    private mutating func increment(_ label: String, _ route: Route, _ dimension: String, _ value: String) {
        let key = Key(label: label, route: route, value: value)
        if let counter = counters[key] { return counter.increment() }
        let counter = Counter(label: label, dimensions: Self.labels(route) + [(dimension, value)])
        counters[key] = counter
        counter.increment()
    }

    private static func labels(_ route: Route) -> [(String, String)] {
        [("app", route.app), ("magic", route.magic.rawValue)]
    }
}
