import Admission
import Delivery
import Metrics
import Providers
import TNP

/// What the node counts (swift-metrics): nothing that names a phone or a sender, and no label that a sender can invent.
struct NodeMetrics {
    /// Counters are made once: they are bounded by the routes and the rows of the outcome tables.
    private struct RouteCounters {
        var attempts: [String: Counter] = [:]
        var outcomes: [Outcome.Kind: Counter] = [:]
    }

    private let factory: any MetricsFactory
    private var counters: [Route: RouteCounters] = [:]
    private let spoolRefusals: Counter
    private let spoolUnreadable: Gauge
    /// By reason: bounded by those that admission gives.
    private var refusals: [UInt16: Counter] = [:]
    private let abuse: Counter
    private let effort: (all: Gauge, unproven: Gauge)
    private let deviceTokens: Gauge
    private let circuits: Gauge
    private let connections: Gauge

    /// - Parameter factory: where the figures go.
    init(factory: any MetricsFactory = MetricsSystem.factory) {
        self.factory = factory
        spoolRefusals = Counter(label: "tocsin_spool_refusals_total", factory: factory)
        spoolUnreadable = Gauge(label: "tocsin_spool_unreadable", factory: factory)
        abuse = Counter(label: "tocsin_abuse_total", factory: factory)
        effort = (
            Gauge(label: "tocsin_puzzle_effort", dimensions: [("asked_of", "all")], factory: factory),
            Gauge(label: "tocsin_puzzle_effort", dimensions: [("asked_of", "unproven")], factory: factory)
        )
        deviceTokens = Gauge(label: "tocsin_device_tokens", factory: factory)
        circuits = Gauge(label: "tocsin_circuits", factory: factory)
        connections = Gauge(label: "tocsin_connections", factory: factory)
    }

    /// Counts what has happened.
    mutating func count(_ event: DispatchEvent) {
        switch event {
        case .serving(let route): show(.closed, of: route)
        case .attempt(let route, _, let verdict):
            if let counter = counters[route]?.attempts[verdict.answer] { return counter.increment() }
            let counter = Counter(
                label: "tocsin_attempts_total", dimensions: Self.labels(route) + [("answer", verdict.answer)],
                factory: factory)
            counters[route, default: RouteCounters()].attempts[verdict.answer] = counter
            counter.increment()
        case .finished(let route, let outcome):
            if let counter = counters[route]?.outcomes[outcome.kind] { return counter.increment() }
            let counter = Counter(
                label: "tocsin_envelopes_total", dimensions: Self.labels(route) + [("outcome", outcome.kind.name)],
                factory: factory)
            counters[route, default: RouteCounters()].outcomes[outcome.kind] = counter
            counter.increment()
        case .recovered, .suspected: break
        case .breaker(let route, let state, _): show(state, of: route)
        case .wave(let route, let isActive):
            Gauge(label: "tocsin_refusal_wave", dimensions: Self.labels(route), factory: factory)
                .record(isActive ? 1 : 0)
        case .spoolRefused: spoolRefusals.increment()
        case .spoolUnreadable(let count): spoolUnreadable.record(count)
        }
    }

    /// Counts a submission that was not admitted.
    mutating func refused(_ refusal: Refusal) {
        guard let reason = refusal.outcome?.reason.rawValue else { return }
        if let counter = refusals[reason] { return counter.increment() }
        let counter = Counter(
            label: "tocsin_refusals_total", dimensions: [("reason", "\(reason)")], factory: factory)
        refusals[reason] = counter
        counter.increment()
    }

    /// Counts a circuit that is not listened to for a while.
    func countAbuse() { abuse.increment() }

    /// How admission stands.
    func show(
        _ efforts: (all: UInt32, unproven: UInt32), known: (deviceTokens: Int, circuits: Int), connections: Int
    ) {
        effort.all.record(Int64(efforts.all))
        effort.unproven.record(Int64(efforts.unproven))
        deviceTokens.record(Int64(known.deviceTokens))
        circuits.record(Int64(known.circuits))
        self.connections.record(Int64(connections))
    }

    /// One of the three is 1.
    private func show(_ state: Breaker.State, of route: Route) {
        for each in Breaker.State.allCases {
            Gauge(
                label: "tocsin_breaker_state", dimensions: Self.labels(route) + [("state", each.rawValue)],
                factory: factory
            ).record(each == state ? 1 : 0)
        }
    }

    private static func labels(_ route: Route) -> [(String, String)] {
        [("app", route.app), ("magic", route.magic.rawValue)]
    }
}
