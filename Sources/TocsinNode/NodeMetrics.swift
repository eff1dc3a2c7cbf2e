// SPDX-License-Identifier: Apache-2.0

import Admission
import Delivery
import Metrics
import Prometheus
import Providers
import TNP
import Tor

/// What the node counts: nothing that names a phone or a sender, and no label that a sender can invent.
struct NodeMetrics {
    /// Everything that there is: names, labels, and how many series there may be.
    static let catalogue: [MetricFamily] =
        [
            MetricFamily(
                "tocsin_envelopes_total", .counter,
                help: "What senders were told of their notifications; door spool: taken by an earlier process.",
                labels: ["door", "app", "magic", "outcome"], maximumSeries: Self.maximumRouteSeries * 15),
            MetricFamily(
                "tocsin_provider_results_total", .counter, help: "Answers of push services to attempts.",
                labels: ["app", "provider", "environment", "reason"], maximumSeries: Self.maximumRouteSeries * 40),
            MetricFamily(
                "tocsin_refusals_total", .counter, help: "Submissions that were not let in, by the limit or rule.",
                labels: ["door", "reason"], maximumSeries: 100),
            MetricFamily(
                "tocsin_abuse_blocks_total", .counter, help: "Circuits that were sent away for what they did wrong."),
            MetricFamily(
                "tocsin_http_responses_total", .counter, help: "Answers of the HTTP endpoint.", labels: ["status"],
                maximumSeries: 30),
            MetricFamily(
                "tocsin_stage_duration_seconds", .histogram(buckets: Self.durations),
                help: "Time that a notification spends in a stage.", labels: ["stage"], maximumSeries: 4),
            MetricFamily(
                "tocsin_provider_duration_seconds", .histogram(buckets: Self.durations),
                help: "Time until a push service has answered.", labels: ["app", "provider", "environment"],
                maximumSeries: Self.maximumRouteSeries),
            MetricFamily(
                "tocsin_connections", .gauge, help: "Connections of senders.", labels: ["door"], maximumSeries: 2),
            MetricFamily("tocsin_circuits", .gauge, help: "Circuits that are known."),
            MetricFamily("tocsin_in_flight", .gauge, help: "Notifications in memory without an outcome."),
            MetricFamily(
                "tocsin_queue_depth", .gauge, help: "Notifications that wait for their turn at a push service.",
                labels: ["app", "magic"], maximumSeries: Self.maximumRouteSeries),
            MetricFamily(
                "tocsin_queue_oldest_seconds", .gauge, help: "How long the one that waits longest has waited.",
                labels: ["app", "magic"], maximumSeries: Self.maximumRouteSeries),
            MetricFamily("tocsin_spool_envelopes", .gauge, help: "Notifications on disk."),
            MetricFamily("tocsin_spool_bytes", .gauge, help: "What they take there."),
            MetricFamily("tocsin_spool_refusals_total", .counter, help: "Notifications that the spool did not take."),
            MetricFamily("tocsin_spool_unreadable", .gauge, help: "Rows of the spool that could not be read."),
            MetricFamily(
                "tocsin_breaker_state", .gauge,
                help:
                    "1 for the state of a push service's breaker: closed works, open is left alone, half-open is tried.",
                labels: ["app", "magic", "state"], maximumSeries: Self.maximumRouteSeries * 3),
            MetricFamily(
                "tocsin_refusal_wave", .gauge,
                help: "1 while so many device tokens are refused that environment or topic must be wrong.",
                labels: ["app", "magic"], maximumSeries: Self.maximumRouteSeries),
            MetricFamily(
                "tocsin_puzzle_effort", .gauge, help: "Expected hashes that senders are asked for; 0: nothing.",
                labels: ["asked_of"], maximumSeries: 2),
            MetricFamily(
                "tocsin_device_tokens", .gauge, help: "Device tokens that are known.", labels: ["standing"],
                maximumSeries: 3),
            MetricFamily(
                "tocsin_apns_token_age_seconds", .gauge, help: "Age of the provider token shown to Apple.",
                labels: ["app"], maximumSeries: Self.maximumApps),
            MetricFamily(
                "tocsin_credential_expiry_timestamp_seconds", .gauge, help: "When a credential ends.",
                labels: ["app", "kind"], maximumSeries: Self.maximumApps * 2),
            MetricFamily("tocsin_tor_bootstrap_ratio", .gauge, help: "How far the node's own tor has come, 0 to 1."),
            MetricFamily(
                "tocsin_tor_descriptor_published", .gauge, help: "1 while the onion can be found under its address."),
            MetricFamily(
                "tocsin_tor_restarts_total", .counter, help: "How often the node's own tor had to be restarted."),
            BuildInfo.family,
        ] + ProcessCollector.families

    private static let maximumApps = 85
    private static let maximumRouteSeries = 3 * maximumApps
    /// From a decision in memory to the longest wait for an answer.
    private static let durations = [
        0.00001, 0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60,
    ]

    /// A stage of an envelope's way.
    enum Stage: String, CaseIterable {
        /// From the bytes to a submission.
        case ingress
        /// From there to a decision.
        case admission
        /// Until its turn at the push service.
        case queue
        /// Until that has answered.
        case provider
    }

    private struct RouteHandles {
        var results: [String: Counter] = [:]
        var duration: Timer?
        var breaker: [Breaker.State: Gauge] = [:]
        var wave: Gauge?
        var depth: Gauge?
        var oldest: Gauge?
    }

    /// Made when there is a tor to speak of: a node without one has none that fails.
    private struct TorHandles {
        let bootstrap: Gauge
        let published: Gauge
        let restarts: Counter

        init(factory: any MetricsFactory) {
            bootstrap = Gauge(label: "tocsin_tor_bootstrap_ratio", factory: factory)
            published = Gauge(label: "tocsin_tor_descriptor_published", factory: factory)
            restarts = Counter(label: "tocsin_tor_restarts_total", factory: factory)
        }
    }

    private struct EnvelopeKey: Hashable {
        let senderProtocol: String
        let route: Route
        let kind: Outcome.Kind
    }

    private struct RefusalKey: Hashable {
        let senderProtocol: String
        let reason: Reason
    }

    // Handles are made once: making one costs more than counting.
    private let factory: any MetricsFactory
    private var routes: [Route: RouteHandles] = [:]
    private var envelopes: [EnvelopeKey: Counter] = [:]
    private var refusals: [RefusalKey: Counter] = [:]
    private var responses: [Int: Counter] = [:]
    private let stages: [Stage: Timer]
    private let abuse: Counter
    private let spoolRefusals: Counter
    private var torHandles: TorHandles?
    private var countedRestarts = 0
    private var tokenAges: [String: Gauge] = [:]
    private var expiries: [String: Gauge] = [:]
    private let gauges: [String: Gauge]

    /// - Parameter factory: where the figures go.
    init(factory: any MetricsFactory) {
        self.factory = factory
        stages = Dictionary(
            uniqueKeysWithValues: Stage.allCases.map { stage in
                let labels = [("stage", stage.rawValue)]
                return (
                    stage, Timer(label: "tocsin_stage_duration_seconds", dimensions: labels, factory: factory)
                )
            })
        abuse = Counter(label: "tocsin_abuse_blocks_total", factory: factory)
        spoolRefusals = Counter(label: "tocsin_spool_refusals_total", factory: factory)
        func gauge(_ name: String, _ labels: [(String, String)] = []) -> (String, Gauge) {
            (name + (labels.first?.1 ?? ""), Gauge(label: name, dimensions: labels, factory: factory))
        }
        gauges = Dictionary(
            uniqueKeysWithValues: [
                gauge("tocsin_connections", [("door", "tnp")]), gauge("tocsin_connections", [("door", "http")]),
                gauge("tocsin_circuits"), gauge("tocsin_in_flight"), gauge("tocsin_spool_envelopes"),
                gauge("tocsin_spool_bytes"), gauge("tocsin_spool_unreadable"),
                gauge("tocsin_puzzle_effort", [("asked_of", "all")]),
                gauge("tocsin_puzzle_effort", [("asked_of", "unproven")]),
                gauge("tocsin_device_tokens", [("standing", "proven")]),
                gauge("tocsin_device_tokens", [("standing", "unknown")]),
                gauge("tocsin_device_tokens", [("standing", "dead")]),
            ])
    }

    // MARK: Counting

    /// Counts what has happened in delivery.
    mutating func count(_ event: DispatchEvent) {
        switch event {
        case .serving(let route): show(.closed, of: route)
        case .attempt(let route, _, let attemptResult, let waited, let took):
            result(route, attemptResult.answer).increment()
            record(waited, in: .queue)
            record(took, in: .provider)
            duration(route).recordNanoseconds(took.wholeNanoseconds)
        case .recovered(let envelope, let app, let outcome):
            answered(outcome, of: Route(app: app, magic: envelope.magic), at: "spool")
        case .finished, .unprovenTokenRefused, .spoolShortage: break
        case .breaker(let route, let state, _): show(state, of: route)
        case .tokenRefusalSurge(let route, let isActive):
            let gauge =
                routes[route]?.wave
                ?? Gauge(label: "tocsin_refusal_wave", dimensions: Self.labels(route), factory: factory)
            routes[route, default: RouteHandles()].wave = gauge
            gauge.record(isActive ? 1 : 0)
        case .spoolRefused: spoolRefusals.increment()
        case .spoolUnreadable(let count): gauges["tocsin_spool_unreadable"]?.record(count)
        }
    }

    private mutating func duration(_ route: Route) -> Timer {
        if let timer = routes[route]?.duration { return timer }
        let timer = Timer(
            label: "tocsin_provider_duration_seconds", dimensions: Self.provider(of: route), factory: factory)
        routes[route, default: RouteHandles()].duration = timer
        return timer
    }

    private mutating func result(_ route: Route, _ answer: String) -> Counter {
        if let counter = routes[route]?.results[answer] { return counter }
        let labels = Self.provider(of: route) + [("reason", answer)]
        let counter = Counter(label: "tocsin_provider_results_total", dimensions: labels, factory: factory)
        routes[route, default: RouteHandles()].results[answer] = counter
        return counter
    }

    /// Counts what a sender was told at the end.
    /// - Parameter endpoint: `tnp`, `http`, or `spool` where nobody waited for it any more.
    mutating func answered(_ outcome: Outcome, of route: Route, at senderProtocol: String) {
        let key = EnvelopeKey(senderProtocol: senderProtocol, route: route, kind: outcome.kind)
        let counter =
            envelopes[key]
            ?? Counter(
                label: "tocsin_envelopes_total",
                dimensions: [("door", senderProtocol)] + Self.labels(route) + [("outcome", outcome.kind.name)],
                factory: factory)
        envelopes[key] = counter
        counter.increment()
    }

    /// Counts a submission that was not admitted.
    mutating func refused(_ refusal: Refusal, at senderProtocol: String) {
        guard let reason = refusal.outcome?.reason else { return }
        let key = RefusalKey(senderProtocol: senderProtocol, reason: reason)
        let counter =
            refusals[key]
            ?? Counter(
                label: "tocsin_refusals_total", dimensions: [("door", senderProtocol), ("reason", reason.name)],
                factory: factory)
        refusals[key] = counter
        counter.increment()
    }

    /// Counts an answer of the HTTP endpoint.
    mutating func responded(_ status: Int) {
        let counter =
            responses[status]
            ?? Counter(
                label: "tocsin_http_responses_total", dimensions: [("status", "\(status)")], factory: factory)
        responses[status] = counter
        counter.increment()
    }

    /// Counts a circuit that is not listened to for a while.
    func countAbuse() { abuse.increment() }

    func record(_ duration: Duration, in stage: Stage) {
        stages[stage]?.recordNanoseconds(duration.wholeNanoseconds)
    }

    // MARK: Showing

    /// How admission stands.
    func show(_ efforts: (all: UInt32, unproven: UInt32), known: Admission.Counts) {
        gauges["tocsin_puzzle_effortall"]?.record(Int64(efforts.all))
        gauges["tocsin_puzzle_effortunproven"]?.record(Int64(efforts.unproven))
        gauges["tocsin_device_tokensproven"]?.record(Int64(known.proven))
        gauges["tocsin_device_tokensunknown"]?.record(Int64(known.unproven))
        gauges["tocsin_device_tokensdead"]?.record(Int64(known.dead))
        gauges["tocsin_circuits"]?.record(Int64(known.circuits))
    }

    /// How the node's own tor stands.
    mutating func show(_ status: TorStatus) {
        let tor = torHandles ?? TorHandles(factory: factory)
        torHandles = tor
        tor.bootstrap.record(Double(status.bootstrap) / 100)
        tor.published.record(status.isReachable ? 1 : 0)
        tor.restarts.increment(by: max(0, status.restarts - countedRestarts))
        countedRestarts = max(countedRestarts, status.restarts)
    }

    /// How old the token is that Apple is shown for an app; nil: there is none yet.
    mutating func show(ageOfToken age: Int64?, of app: String) {
        guard let age else { return }
        let gauge =
            tokenAges[app]
            ?? Gauge(label: "tocsin_apns_token_age_seconds", dimensions: [("app", app)], factory: factory)
        tokenAges[app] = gauge
        gauge.record(age)
    }

    /// When a credential ends, as Unix time in seconds.
    mutating func show(expiry: Int64, of app: String, kind: String) {
        let gauge =
            expiries[app]
            ?? Gauge(
                label: "tocsin_credential_expiry_timestamp_seconds", dimensions: [("app", app), ("kind", kind)],
                factory: factory)
        expiries[app] = gauge
        gauge.record(expiry)
    }

    /// Apps that have no provider token, or no certificate, any more: what was shown of them goes.
    mutating func keep(tokensOf tokens: Set<String>, certificatesOf certificates: Set<String>) {
        for (app, gauge) in tokenAges where !tokens.contains(app) {
            tokenAges[app] = nil
            gauge.destroy()
        }
        for (app, gauge) in expiries where !certificates.contains(app) {
            expiries[app] = nil
            gauge.destroy()
        }
    }

    func show(connections: (tnp: Int, http: Int)) {
        gauges["tocsin_connectionstnp"]?.record(connections.tnp)
        gauges["tocsin_connectionshttp"]?.record(connections.http)
    }

    /// How delivery stands.
    mutating func show(_ figures: DispatchStatistics) {
        gauges["tocsin_in_flight"]?.record(figures.inFlight)
        gauges["tocsin_spool_envelopes"]?.record(figures.stored?.envelopes ?? 0)
        gauges["tocsin_spool_bytes"]?.record(figures.stored?.bytes ?? 0)
        for lane in figures.lanes {
            let labels = Self.labels(lane.route)
            var handles = routes[lane.route] ?? RouteHandles()
            let depth =
                handles.depth ?? Gauge(label: "tocsin_queue_depth", dimensions: labels, factory: factory)
            let oldest =
                handles.oldest ?? Gauge(label: "tocsin_queue_oldest_seconds", dimensions: labels, factory: factory)
            (handles.depth, handles.oldest) = (depth, oldest)
            routes[lane.route] = handles
            depth.record(lane.waiting)
            oldest.record(lane.oldest.wholeNanoseconds / 1_000_000_000)
        }
    }

    /// One of the three is 1.
    private mutating func show(_ state: Breaker.State, of route: Route) {
        for each in Breaker.State.allCases {
            let gauge =
                routes[route]?.breaker[each]
                ?? Gauge(
                    label: "tocsin_breaker_state", dimensions: Self.labels(route) + [("state", each.rawValue)],
                    factory: factory)
            routes[route, default: RouteHandles()].breaker[each] = gauge
            gauge.record(each == state ? 1 : 0)
        }
    }

    /// A route is served no longer: its figures go, that others may come.
    mutating func forget(_ route: Route) {
        guard let handles = routes.removeValue(forKey: route) else { return }
        for counter in handles.results.values { counter.destroy() }
        handles.duration?.destroy()
        for gauge in Array(handles.breaker.values) + [handles.wave, handles.depth, handles.oldest].compactMap(\.self) {
            gauge.destroy()
        }
        for (key, counter) in envelopes where key.route == route {
            envelopes[key] = nil
            counter.destroy()
        }
    }

    private static func labels(_ route: Route) -> [(String, String)] {
        [("app", route.app), ("magic", route.magic.rawValue)]
    }

    /// The labels of an app's push service in one environment.
    static func provider(of route: Route) -> [(String, String)] {
        [
            ("app", route.app), ("provider", route.magic == .android ? "fcm" : "apns"),
            ("environment", route.magic == .iOSDev ? "development" : "production"),
        ]
    }
}

extension Duration {
    fileprivate var wholeNanoseconds: Int64 {
        let (seconds, attoseconds) = components
        return min(max(seconds, 0), 9_000_000_000) * 1_000_000_000 + attoseconds / 1_000_000_000
    }
}
