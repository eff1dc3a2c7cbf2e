// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Admission
import Delivery
import Metrics
import Prometheus
import Providers
import TNP
import Time
import Tor

/// The node's metrics. They identify no phone and no sender, and a sender cannot create label values.
final class NodeMetrics {
    /// All families: names, labels, and how many series each may have.
    static let catalogue: [MetricFamily] =
        [
            MetricFamily(
                "tocsin_envelopes_total", .counter,
                help: "Final outcomes of notifications; door is spool if an earlier process accepted them.",
                labels: ["door", "app", "magic", "outcome"], maximumSeries: NodeMetrics.maximumRouteSeries * 15),
            MetricFamily(
                "tocsin_provider_results_total", .counter, help: "Answers of push services to attempts.",
                labels: ["app", "provider", "environment", "reason"], maximumSeries: NodeMetrics.maximumRouteSeries * 40
            ),
            MetricFamily(
                "tocsin_refusals_total", .counter, help: "Submissions rejected at admission, by reason.",
                labels: ["door", "reason"], maximumSeries: 100),
            MetricFamily(
                "tocsin_abuse_blocks_total", .counter, help: "Times that a circuit was blocked for abuse."),
            MetricFamily(
                "tocsin_http_responses_total", .counter, help: "Responses of the HTTP API.", labels: ["status"],
                maximumSeries: 30),
            MetricFamily(
                "tocsin_stage_duration_seconds", .histogram(buckets: NodeMetrics.durations),
                help: "Time that a notification spends in a stage.", labels: ["stage"], maximumSeries: 4),
            MetricFamily(
                "tocsin_provider_duration_seconds", .histogram(buckets: NodeMetrics.durations),
                help: "Time until the push service answers.", labels: ["app", "provider", "environment"],
                maximumSeries: NodeMetrics.maximumRouteSeries),
            MetricFamily(
                "tocsin_connections", .gauge, help: "Connections of senders.", labels: ["door"], maximumSeries: 2),
            MetricFamily("tocsin_circuits", .gauge, help: "Circuits in the circuit table."),
            MetricFamily("tocsin_in_flight", .gauge, help: "Notifications in memory without a final outcome."),
            MetricFamily(
                "tocsin_queue_depth", .gauge, help: "Notifications queued for a push service.",
                labels: ["app", "magic"], maximumSeries: NodeMetrics.maximumRouteSeries),
            MetricFamily(
                "tocsin_queue_oldest_seconds", .gauge, help: "Age of the oldest notification in the queue.",
                labels: ["app", "magic"], maximumSeries: NodeMetrics.maximumRouteSeries),
            MetricFamily("tocsin_spool_envelopes", .gauge, help: "Notifications in the spool."),
            MetricFamily("tocsin_spool_bytes", .gauge, help: "Bytes of the spool that notifications and outcomes use."),
            MetricFamily(
                "tocsin_spool_refusals_total", .counter, help: "Failures of the spool to store or load notifications."),
            MetricFamily(
                "tocsin_spool_unreadable", .gauge, help: "Rows of the spool that could not be read and were dropped."),
            MetricFamily(
                "tocsin_breaker_state", .gauge,
                help:
                    "1 for the state of the push service's circuit breaker: closed, open or half-open (probing).",
                labels: ["app", "magic", "state"], maximumSeries: NodeMetrics.maximumRouteSeries * 3),
            MetricFamily(
                "tocsin_refusal_wave", .gauge,
                help: "1 during a surge of token refusals: the environment or the topic must be wrong.",
                labels: ["app", "magic"], maximumSeries: NodeMetrics.maximumRouteSeries),
            MetricFamily(
                "tocsin_puzzle_effort", .gauge, help: "Required proof of work in expected hashes; 0: none.",
                labels: ["asked_of"], maximumSeries: 2),
            MetricFamily(
                "tocsin_device_tokens", .gauge, help: "Device tokens in the table, by standing.", labels: ["standing"],
                maximumSeries: 3),
            MetricFamily(
                "tocsin_apns_token_age_seconds", .gauge, help: "Age of the APNs provider token.",
                labels: ["app"], maximumSeries: NodeMetrics.maximumApps),
            MetricFamily(
                "tocsin_credential_expiry_timestamp_seconds", .gauge, help: "Expiry of a credential.",
                labels: ["app", "kind"], maximumSeries: NodeMetrics.maximumApps * 2),
            MetricFamily(
                "tocsin_tor_bootstrap_ratio", .gauge, help: "Bootstrap progress of the node's own tor, 0 to 1."),
            MetricFamily(
                "tocsin_tor_descriptor_published", .gauge, help: "1 while the onion's descriptor is published."),
            MetricFamily(
                "tocsin_tor_restarts_total", .counter, help: "Restarts of the node's own tor."),
            BuildInfo.family,
        ] + ProcessCollector.families

    private static let maximumApps = 85
    private static let maximumRouteSeries = 3 * maximumApps
    /// Bucket bounds in seconds: from a decision in memory to the longest wait for an answer.
    private static let durations = [
        0.00001, 0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60,
    ]

    /// A stage of an envelope's path through the node.
    enum Stage: String, CaseIterable {
        /// Decoding: from the bytes to a submission.
        case ingress
        /// Admission: from the submission to the decision.
        case admission
        /// Waiting for the push service.
        case queue
        /// The request to the push service.
        case provider
    }

    /// A counter whose value the dashboard reads.
    private struct ReadableCounter {
        let counter: Counter
        private(set) var count = 0

        init(_ name: String, _ labels: [(String, String)], _ registry: PrometheusRegistry) {
            counter = Counter(label: name, dimensions: labels, factory: registry)
        }

        mutating func increment() {
            counter.increment()
            count += 1
        }
    }

    /// The metrics of one route.
    private final class RouteMetrics {
        var answers: [String: ReadableCounter] = [:]
        let duration: ReadableTimer
        let breaker: [Breaker.State: Gauge]
        let surge: Gauge
        let depth: Gauge
        let oldest: Gauge

        init(_ route: Route, _ registry: PrometheusRegistry) {
            let labels = NodeMetrics.labels(route)
            func gauge(_ name: String, _ more: [(String, String)] = []) -> Gauge {
                Gauge(label: name, dimensions: labels + more, factory: registry)
            }
            duration = ReadableTimer(
                "tocsin_provider_duration_seconds", labels: NodeMetrics.provider(of: route), in: registry)
            breaker = Dictionary(
                uniqueKeysWithValues: Breaker.State.allCases.map {
                    ($0, gauge("tocsin_breaker_state", [("state", $0.rawValue)]))
                })
            surge = gauge("tocsin_refusal_wave")
            depth = gauge("tocsin_queue_depth")
            oldest = gauge("tocsin_queue_oldest_seconds")
        }

        func destroy() {
            for answer in answers.values { answer.counter.destroy() }
            duration.destroy()
            for gauge in Array(breaker.values) + [surge, depth, oldest] { gauge.destroy() }
        }
    }

    /// Created with the first status of the node's own tor: a node without one has no such metrics.
    private struct TorMetrics {
        let bootstrap: Gauge
        let published: Gauge
        let restarts: Counter

        init(_ registry: PrometheusRegistry) {
            bootstrap = Gauge(label: "tocsin_tor_bootstrap_ratio", factory: registry)
            published = Gauge(label: "tocsin_tor_descriptor_published", factory: registry)
            restarts = Counter(label: "tocsin_tor_restarts_total", factory: registry)
        }
    }

    private struct EnvelopeKey: Hashable {
        let protocolName: String
        let route: Route
        let kind: Outcome.Kind
    }

    private struct RefusalKey: Hashable {
        let protocolName: String
        let reason: Reason
    }

    // Handles are created once: creating one costs more than counting.
    private let registry: PrometheusRegistry
    private var routes: [Route: RouteMetrics] = [:]
    private var envelopes: [EnvelopeKey: Counter] = [:]
    private var refusals: [RefusalKey: ReadableCounter] = [:]
    private var responses: [Int: Counter] = [:]
    private let stages: [Stage: ReadableTimer]
    private let abuseBlocks: Counter
    private let spoolFailures: Counter
    private let tnpConnections: Gauge
    private let httpConnections: Gauge
    private let circuits: Gauge
    private let inFlight: Gauge
    private let spoolEnvelopes: Gauge
    private let spoolBytes: Gauge
    private let spoolUnreadable: Gauge
    private let effort: (all: Gauge, unproven: Gauge)
    private let deviceTokens: (proven: Gauge, unproven: Gauge, dead: Gauge)
    private var tor: TorMetrics?
    private var countedRestarts = 0
    private var tokenAges: [String: Gauge] = [:]
    private var expiries: [String: Gauge] = [:]
    /// Final outcomes over time, for the dashboard.
    private(set) var history = History()
    private var recent = RecentMetrics()

    /// - Parameter registry: with the families of ``catalogue``.
    init(_ registry: PrometheusRegistry = PrometheusRegistry(NodeMetrics.catalogue)) {
        self.registry = registry
        ProcessCollector.register(in: registry)
        BuildInfo.register(Version.current, in: registry)
        func gauge(_ name: String, _ labels: [(String, String)] = []) -> Gauge {
            Gauge(label: name, dimensions: labels, factory: registry)
        }
        stages = Dictionary(
            uniqueKeysWithValues: Stage.allCases.map { stage in
                let labels = [("stage", stage.rawValue)]
                return (stage, ReadableTimer("tocsin_stage_duration_seconds", labels: labels, in: registry))
            })
        abuseBlocks = Counter(label: "tocsin_abuse_blocks_total", factory: registry)
        spoolFailures = Counter(label: "tocsin_spool_refusals_total", factory: registry)
        tnpConnections = gauge("tocsin_connections", [("door", "tnp")])
        httpConnections = gauge("tocsin_connections", [("door", "http")])
        circuits = gauge("tocsin_circuits")
        inFlight = gauge("tocsin_in_flight")
        spoolEnvelopes = gauge("tocsin_spool_envelopes")
        spoolBytes = gauge("tocsin_spool_bytes")
        spoolUnreadable = gauge("tocsin_spool_unreadable")
        effort = (
            gauge("tocsin_puzzle_effort", [("asked_of", "all")]),
            gauge("tocsin_puzzle_effort", [("asked_of", "unproven")])
        )
        deviceTokens = (
            gauge("tocsin_device_tokens", [("standing", "proven")]),
            gauge("tocsin_device_tokens", [("standing", "unknown")]),
            gauge("tocsin_device_tokens", [("standing", "dead")])
        )
    }

    /// All metrics in the Prometheus text format.
    var exposition: [UInt8] { registry.expose() }

    // MARK: Counting

    /// Counts an event of delivery.
    func count(_ event: DispatchEvent) {
        switch event {
        case .serving(let route): show(.closed, of: route)
        case .attempt(let route, _, let result, let waited, let took):
            let metrics = metrics(of: route)
            metrics.answers[
                result.answer,
                default: ReadableCounter(
                    "tocsin_provider_results_total", Self.provider(of: route) + [("reason", result.answer)], registry)
            ].increment()
            record(waited, in: .queue)
            record(took, in: .provider)
            metrics.duration.record(took)
        case .recovered(let envelope, let app, let outcome):
            answered(outcome, of: Route(app: app, magic: envelope.magic), at: "spool")
        case .finished, .unprovenTokenRefused, .spoolShortage: break
        case .breaker(let route, let state, _): show(state, of: route)
        case .tokenRefusalSurge(let route, let isActive): metrics(of: route).surge.record(isActive ? 1 : 0)
        case .spoolRefused: spoolFailures.increment()
        case .spoolUnreadable(let count): spoolUnreadable.record(count)
        }
    }

    /// Counts a final outcome.
    /// - Parameter protocolName: `tnp`, `http`, or `spool` if an earlier process accepted the envelope.
    func answered(_ outcome: Outcome, of route: Route, at protocolName: String) {
        let key = EnvelopeKey(protocolName: protocolName, route: route, kind: outcome.kind)
        let counter =
            envelopes[key]
            ?? Counter(
                label: "tocsin_envelopes_total",
                dimensions: [("door", protocolName)] + Self.labels(route) + [("outcome", outcome.kind.name)],
                factory: registry)
        envelopes[key] = counter
        counter.increment()
        if protocolName != "spool" { history.count(outcome.kind, at: UnixTime.now) }
    }

    /// Counts a submission that was not admitted.
    func refused(_ refusal: Refusal, at protocolName: String) {
        guard let reason = refusal.outcome?.reason else { return }
        refusals[
            RefusalKey(protocolName: protocolName, reason: reason),
            default: ReadableCounter(
                "tocsin_refusals_total", [("door", protocolName), ("reason", reason.name)], registry)
        ].increment()
    }

    /// Counts a response of the HTTP API.
    func responded(_ status: Int) {
        let counter =
            responses[status]
            ?? Counter(
                label: "tocsin_http_responses_total", dimensions: [("status", "\(status)")], factory: registry)
        responses[status] = counter
        counter.increment()
    }

    /// Counts a circuit that was blocked.
    func countAbuse() { abuseBlocks.increment() }

    /// Records the duration of a stage.
    func record(_ duration: Duration, in stage: Stage) { stages[stage]?.record(duration) }

    // MARK: Current values

    /// Shows the state of admission.
    func show(_ efforts: (all: UInt32, unproven: UInt32), known: Admission.Counts) {
        effort.all.record(Int64(efforts.all))
        effort.unproven.record(Int64(efforts.unproven))
        deviceTokens.proven.record(known.proven)
        deviceTokens.unproven.record(known.unproven)
        deviceTokens.dead.record(known.dead)
        circuits.record(known.circuits)
    }

    /// Shows the state of the node's own tor.
    func show(_ status: TorStatus) {
        let tor = tor ?? TorMetrics(registry)
        self.tor = tor
        tor.bootstrap.record(Double(status.bootstrap) / 100)
        tor.published.record(status.isReachable ? 1 : 0)
        tor.restarts.increment(by: max(0, status.restarts - countedRestarts))
        countedRestarts = max(countedRestarts, status.restarts)
    }

    /// Shows the expiry of a credential, Unix time in seconds.
    func show(expiry: Int64, of app: String, kind: String) {
        let gauge =
            expiries[app]
            ?? Gauge(
                label: "tocsin_credential_expiry_timestamp_seconds", dimensions: [("app", app), ("kind", kind)],
                factory: registry)
        expiries[app] = gauge
        gauge.record(expiry)
    }

    /// Shows the values that change every second.
    /// - Parameter tokenAges: the ages of Apple's provider tokens, in seconds, by app.
    func show(_ statistics: DispatchStatistics, connections: (tnp: Int, http: Int), tokenAges: [String: Int64]) {
        tnpConnections.record(connections.tnp)
        httpConnections.record(connections.http)
        inFlight.record(statistics.inFlight)
        spoolEnvelopes.record(statistics.stored?.envelopes ?? 0)
        spoolBytes.record(statistics.stored?.bytes ?? 0)
        for lane in statistics.lanes {
            let metrics = metrics(of: lane.route)
            metrics.depth.record(lane.waiting)
            metrics.oldest.record(lane.oldest.components.seconds)
        }
        for (app, age) in tokenAges {
            let gauge =
                self.tokenAges[app]
                ?? Gauge(label: "tocsin_apns_token_age_seconds", dimensions: [("app", app)], factory: registry)
            self.tokenAges[app] = gauge
            gauge.record(age)
        }
        let now = UnixTime.now
        if recent.isDue(at: now) { recent.add(sample(at: now)) }
    }

    private func show(_ state: Breaker.State, of route: Route) {
        for (each, gauge) in metrics(of: route).breaker { gauge.record(each == state ? 1 : 0) }
    }

    // MARK: For the dashboard

    private func sample(at now: Int64) -> RecentMetrics.Sample {
        RecentMetrics.Sample(
            time: now, stages: Dictionary(uniqueKeysWithValues: stages.map { ($0.rawValue, $1.snapshot) }),
            providers: Dictionary(uniqueKeysWithValues: routes.map { ($0.description, $1.duration.snapshot) }),
            refusals: Dictionary(uniqueKeysWithValues: refusalsByReason.map { ($0.name, Double($1)) }))
    }

    private var refusalsByReason: [Reason: Int] {
        refusals.reduce(into: [:]) { $0[$1.key.reason, default: 0] += $1.value.count }
    }

    /// Rejections at admission by reason: in about the last hour, and since the start.
    var recentRefusals: [(reason: String, lastHour: Int, total: Int)] {
        let before = recent.oldest?.refusals ?? [:]
        return refusalsByReason.map { reason, total in
            (reason.description, total - Int(before[reason.name] ?? 0), total)
        }.sorted { ($1.lastHour, $1.total, $0.reason) < ($0.lastHour, $0.total, $1.reason) }
    }

    /// Latencies of the stages in about the last hour.
    var recentLatencies: [NodeSnapshot.Latency] {
        Stage.allCases.map { stage in
            let latest = stages[stage].map { Self.since(recent.oldest?.stages[stage.rawValue], $0.snapshot) }
            return NodeSnapshot.Latency(
                stage: stage.rawValue, p50: latest?.quantile(0.5), p90: latest?.quantile(0.9),
                p99: latest?.quantile(0.99))
        }
    }

    /// The latency of a route's push service in about the last hour.
    func recentLatency(of route: Route) -> HistogramSnapshot? {
        routes[route].map { Self.since(recent.oldest?.providers[route.description], $0.duration.snapshot) }
    }

    private static func since(_ before: HistogramSnapshot?, _ all: HistogramSnapshot) -> HistogramSnapshot {
        before.map { all.since($0) } ?? all
    }

    /// The answers of a route's push service since the start, most frequent first.
    func answers(of route: Route) -> [(reason: String, count: Int)] {
        (routes[route]?.answers ?? [:]).map { (reason: $0.key, count: $0.value.count) }
            .sorted { ($1.count, $0.reason) < ($0.count, $1.reason) }
    }

    // MARK: Adding and removing series

    private func metrics(of route: Route) -> RouteMetrics {
        if let metrics = routes[route] { return metrics }
        let metrics = RouteMetrics(route, registry)
        routes[route] = metrics
        return metrics
    }

    /// Removes the series of a route that is no longer served, which makes room for others.
    func forget(_ route: Route) {
        guard let metrics = routes.removeValue(forKey: route) else { return }
        metrics.destroy()
        for (key, counter) in envelopes where key.route == route {
            envelopes[key] = nil
            counter.destroy()
        }
    }

    /// Removes the series of apps that have no provider token, or no certificate, any more.
    func keep(tokensOf tokens: Set<String>, certificatesOf certificates: Set<String>) {
        for (app, gauge) in tokenAges where !tokens.contains(app) {
            tokenAges[app] = nil
            gauge.destroy()
        }
        for (app, gauge) in expiries where !certificates.contains(app) {
            expiries[app] = nil
            gauge.destroy()
        }
    }

    private static func labels(_ route: Route) -> [(String, String)] {
        [("app", route.app), ("magic", route.magic.rawValue)]
    }

    /// The labels of an app's push service in one environment.
    private static func provider(of route: Route) -> [(String, String)] {
        [
            ("app", route.app), ("provider", route.magic == .android ? "fcm" : "apns"),
            ("environment", route.magic == .iOSDev ? "development" : "production"),
        ]
    }
}
