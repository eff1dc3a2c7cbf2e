// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Admission
import Cluster
import Delivery
import NodeConfiguration
import Prometheus
import Providers
import TNP
import Time
import Tor

/// The node's metrics. They identify no phone and no sender, and a sender cannot create label values.
final class NodeMetrics {
    /// All families: names, labels, and how many series each may have.
    static let catalogue = families + ProcessCollector.families

    private static let families: [MetricFamily] = [
        .init(
            "tocsin_envelopes_total", .counter,
            help: "Final outcomes of notifications; door is spool if an earlier process accepted them.",
            labels: ["door", "app", "magic", "outcome"], maximumSeries: maximumRoutes * 15),
        .init(
            "tocsin_provider_results_total", .counter, help: "Answers of push services to attempts.",
            labels: ["app", "provider", "environment", "reason"], maximumSeries: maximumRoutes * 40),
        .init(
            "tocsin_refusals_total", .counter, help: "Submissions rejected at admission, by reason.",
            labels: ["door", "reason"], maximumSeries: 100),
        .init("tocsin_abuse_blocks_total", .counter, help: "Times that a circuit was blocked for abuse."),
        .init(
            "tocsin_http_responses_total", .counter, help: "Responses of the HTTP API.", labels: ["status"],
            maximumSeries: 30),
        .init(
            "tocsin_stage_duration_seconds", .histogram(buckets: durations),
            help: "Time that a notification spends in a stage.", labels: ["stage"], maximumSeries: 4),
        .init(
            "tocsin_provider_duration_seconds", .histogram(buckets: durations),
            help: "Time until the push service answers.", labels: ["app", "provider", "environment"],
            maximumSeries: maximumRoutes),
        .init("tocsin_connections", .gauge, help: "Connections of senders.", labels: ["door"], maximumSeries: 2),
        .init("tocsin_circuits", .gauge, help: "Circuits in the circuit table."),
        .init("tocsin_in_flight", .gauge, help: "Notifications in memory without a final outcome."),
        .route("tocsin_queue_depth", "Notifications queued for a push service."),
        .route("tocsin_queue_oldest_seconds", "Age of the oldest notification in the queue."),
        .init("tocsin_spool_envelopes", .gauge, help: "Notifications in the spool."),
        .init("tocsin_spool_bytes", .gauge, help: "Bytes of the spool that notifications and outcomes use."),
        .init("tocsin_spool_refusals_total", .counter, help: "Failures of the spool to store or load notifications."),
        .init("tocsin_spool_unreadable", .gauge, help: "Rows of the spool that could not be read and were dropped."),
        .init(
            "tocsin_breaker_state", .gauge,
            help: "1 for the state of the push service's circuit breaker: closed, open or half-open (probing).",
            labels: ["app", "magic", "state"], maximumSeries: maximumRoutes * 3),
        .route(
            "tocsin_refusal_wave", "1 during a surge of token refusals: the environment or the topic must be wrong."),
        .init(
            "tocsin_puzzle_effort", .gauge, help: "Required proof of work in expected hashes; 0: none.",
            labels: ["asked_of"], maximumSeries: 2),
        .init(
            "tocsin_device_tokens", .gauge, help: "Device tokens in the table, by standing.", labels: ["standing"],
            maximumSeries: 3),
        .init("tocsin_handles", .gauge, help: "Registered handles; none if the node keeps no handles."),
        .init(
            "tocsin_apns_token_age_seconds", .gauge, help: "Age of the APNs provider token.", labels: ["app"],
            maximumSeries: maximumApps),
        .init(
            "tocsin_credential_expiry_timestamp_seconds", .gauge, help: "Expiry of a credential.",
            labels: ["app", "kind"], maximumSeries: maximumApps * 2),
        .init(
            "tocsin_upstream_connections", .gauge, help: "Connections to an upstream node.", labels: ["app", "node"],
            maximumSeries: maximumApps * 8),
        .init(
            "tocsin_upstream_reachable", .gauge,
            help:
                "0 if the last connection to the upstream node failed less than 30 minutes ago and it has not answered since; else 1.",
            labels: ["app", "node"], maximumSeries: maximumApps * 8),
        .init(
            "tocsin_upstream_puzzle_effort", .gauge,
            help: "Effort in the upstream node's last WELCOME, in expected hashes.",
            labels: ["app", "node"], maximumSeries: maximumApps * 8),
        .init("tocsin_cluster_engine_available", .gauge, help: "1 while the node can use the engine of its cluster."),
        .init(
            "tocsin_cluster_engine_round_trip_seconds", .gauge,
            help: "Time between the node's last sign of life to the engine and its reply."),
        .init(
            "tocsin_cluster_clock_offset_seconds", .gauge, help: "The engine's clock minus the node's."),
        .init(
            "tocsin_cluster_nodes", .gauge, help: "Nodes of the cluster in the last day, by whether they live.",
            labels: ["state"], maximumSeries: 2),
        .init(
            "tocsin_cluster_decisions_total", .counter,
            help: "Submissions by who decided: all nodes together (engine), or the node alone (node).", labels: ["by"],
            maximumSeries: 2),
        .init("tocsin_canary_success", .gauge, help: "1 if the canary rang the operator's phone last time."),
        .init(
            "tocsin_canary_last_success_timestamp_seconds", .gauge,
            help: "When the canary last rang the operator's phone; the node's start before the first time."),
        .init("tocsin_canary_interval_seconds", .gauge, help: "Time between two notifications of the canary."),
        .init("tocsin_tor_bootstrap_ratio", .gauge, help: "Bootstrap progress of the node's own tor, 0 to 1."),
        .init(
            "tocsin_tor_descriptor_published", .gauge,
            help: "1 while the onion's descriptor is published; without a label for the first onion.",
            labels: ["onion"], maximumSeries: 17),
        .init("tocsin_tor_restarts_total", .counter, help: "Restarts of the node's own tor."),
        .init("tocsin_key_holder_losses_total", .counter, help: "Key holders that ended or did not answer."),
        .init(
            "tocsin_sandbox_refused_calls_total", .counter,
            help: "System calls of the node and its tor that the sandbox refused."),
        BuildInfo.family,
    ]

    private static let maximumApps = 85
    fileprivate static let maximumRoutes = 3 * maximumApps
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

    /// The metrics of one route.
    private final class RouteMetrics {
        var answers = SeriesTable<String, Counter>()
        let duration: Histogram
        let breaker: [Breaker.State: Gauge]
        let surge: Gauge
        let depth: Gauge
        let oldest: Gauge

        /// - Parameter provider: the labels of the route's push service.
        init(_ route: Route, _ provider: [(String, String)], _ registry: PrometheusRegistry) {
            let labels = NodeMetrics.labels(route)
            duration = registry.histogram("tocsin_provider_duration_seconds", provider)
            breaker = Dictionary(
                uniqueKeysWithValues: Breaker.State.allCases.map {
                    ($0, registry.gauge("tocsin_breaker_state", labels + [("state", $0.rawValue)]))
                })
            surge = registry.gauge("tocsin_refusal_wave", labels)
            depth = registry.gauge("tocsin_queue_depth", labels)
            oldest = registry.gauge("tocsin_queue_oldest_seconds", labels)
        }

        func remove(from registry: PrometheusRegistry) {
            for answer in answers.all.values { registry.remove(answer) }
            registry.remove(duration)
            for gauge in Array(breaker.values) + [surge, depth, oldest] { registry.remove(gauge) }
        }
    }

    private struct EnvelopeKey: Hashable {
        let protocolName: String
        let route: Route
        let kind: Outcome.Kind
    }

    private struct UpstreamKey: Hashable {
        let app: String
        let node: String
    }

    private struct RefusalKey: Hashable {
        let protocolName: String
        let reason: Reason
    }

    // Series that count envelopes are looked up once and kept: a look-up costs more than an increment.
    private let registry: PrometheusRegistry
    private var routes = SeriesTable<Route, RouteMetrics>()
    /// The routes that upstream nodes serve. A route whose provider is of another kind now starts with new series.
    var relayed: Set<Route> = [] {
        didSet { for route in relayed.symmetricDifference(oldValue) { forget(route) } }
    }
    private var upstreams: [UpstreamKey: [Gauge]] = [:]
    private var canaryGauges: [String: Gauge] = [:]
    private var envelopes = SeriesTable<EnvelopeKey, Counter>()
    private var refusals: [RefusalKey: Counter] = [:]
    private var responses: [Int: Counter] = [:]
    private let ingressDurations, admissionDurations, queueDurations, providerDurations: Histogram
    private let abuseBlocks: Counter
    private let spoolFailures: Counter
    private var tokenAges: [String: Gauge] = [:]
    private var expiries: [String: Gauge] = [:]
    /// Final outcomes over time, for the dashboard.
    private(set) var history = History()
    private var recent = RecentMetrics()

    /// - Parameter registry: must contain the families of ``catalogue``.
    init(_ registry: PrometheusRegistry = PrometheusRegistry(NodeMetrics.catalogue)) {
        self.registry = registry
        ProcessCollector.register(in: registry)
        BuildInfo.register(Version.current, in: registry)
        func durations(in stage: Stage) -> Histogram {
            registry.histogram("tocsin_stage_duration_seconds", [("stage", stage.rawValue)])
        }
        ingressDurations = durations(in: .ingress)
        admissionDurations = durations(in: .admission)
        queueDurations = durations(in: .queue)
        providerDurations = durations(in: .provider)
        abuseBlocks = registry.counter("tocsin_abuse_blocks_total")
        spoolFailures = registry.counter("tocsin_spool_refusals_total")
        // These gauges are 0 from the start.
        for name in ["circuits", "in_flight", "spool_envelopes", "spool_bytes", "spool_unreadable"] {
            set("tocsin_\(name)", 0)
        }
        for door in ["tnp", "http"] { set("tocsin_connections", 0, [("door", door)]) }
        for target in ["all", "unproven"] { set("tocsin_puzzle_effort", 0, [("asked_of", target)]) }
        for standing in ["proven", "unknown", "dead"] { set("tocsin_device_tokens", 0, [("standing", standing)]) }
    }

    /// Sets a gauge that changes at most once a second, so that looking it up costs little.
    private func set(_ name: String, _ value: some BinaryInteger, _ labels: [(String, String)] = []) {
        registry.gauge(name, labels).set(value)
    }

    private var stages: [Stage: Histogram] {
        [
            .ingress: ingressDurations, .admission: admissionDurations, .queue: queueDurations,
            .provider: providerDurations,
        ]
    }

    /// All metrics in the Prometheus text format.
    var exposition: [UInt8] { registry.expose() }

    // MARK: Counting

    /// Counts an event of delivery.
    func count(_ event: DispatchEvent) {
        switch event {
        case .serving(let route): show(.closed, of: route)
        case .recovered(let envelope, let app, let outcome):
            answered(outcome, of: Route(app: app, magic: envelope.magic), at: "spool")
        case .unprovenTokenRefused, .spoolShortage: break
        // One of many push servers: see the statistics.
        case .breaker(let route, _, _) where route.magic == .web: break
        case .breaker(let route, let state, _): show(state, of: route)
        case .tokenRefusalSurge(let route, let isActive): metrics(of: route).surge.set(isActive ? 1 : 0)
        case .spoolRefused: spoolFailures.increment()
        case .spoolUnreadable(let count): set("tocsin_spool_unreadable", count)
        }
    }

    /// Counts an attempt that has ended.
    func count(_ attempt: EndedAttempt, _ result: AttemptResult) {
        let metrics = metrics(of: attempt.route)
        metrics.answers.value(result.answer) { answer in
            registry.counter("tocsin_provider_results_total", provider(of: attempt.route) + [("reason", answer)])
        }.increment()
        record(attempt.waited, in: .queue)
        record(attempt.took, in: .provider)
        metrics.duration.record(attempt.took)
    }

    /// Counts a final outcome.
    /// - Parameter protocolName: `tnp`, `http`, or `spool` if an earlier process accepted the envelope.
    func answered(_ outcome: Outcome, of route: Route, at protocolName: String) {
        if protocolName != "spool" { history.count(outcome.kind, at: UnixTime.now) }
        envelopes.value(EnvelopeKey(protocolName: protocolName, route: route, kind: outcome.kind)) { key in
            registry.counter(
                "tocsin_envelopes_total",
                [("door", key.protocolName)] + Self.labels(key.route) + [("outcome", key.kind.name)])
        }.increment()
    }

    /// Counts a submission that was not admitted.
    func refused(_ refusal: Refusal, at protocolName: String) {
        guard let reason = refusal.outcome?.reason else { return }
        refusals.value(
            RefusalKey(protocolName: protocolName, reason: reason),
            orInsert: registry.counter("tocsin_refusals_total", [("door", protocolName), ("reason", reason.name)])
        ).increment()
    }

    /// Counts a response of the HTTP API.
    func responded(_ status: Int) {
        responses.value(
            status, orInsert: registry.counter("tocsin_http_responses_total", [("status", "\(status)")])
        ).increment()
    }

    /// Counts a circuit that was blocked.
    func countAbuse() { abuseBlocks.increment() }

    /// Records the duration of a stage.
    func record(_ duration: Duration, in stage: Stage) {
        switch stage {
        case .ingress: ingressDurations.record(duration)
        case .admission: admissionDurations.record(duration)
        case .queue: queueDurations.record(duration)
        case .provider: providerDurations.record(duration)
        }
    }

    // MARK: Current values

    /// Updates the metrics of admission.
    func show(_ efforts: (all: UInt32, unproven: UInt32), known: Admission.Counts) {
        set("tocsin_puzzle_effort", efforts.all, [("asked_of", "all")])
        set("tocsin_puzzle_effort", efforts.unproven, [("asked_of", "unproven")])
        set("tocsin_device_tokens", known.proven, [("standing", "proven")])
        set("tocsin_device_tokens", known.unproven, [("standing", "unknown")])
        set("tocsin_device_tokens", known.dead, [("standing", "dead")])
        set("tocsin_circuits", known.circuits)
    }

    /// Updates the number of handles.
    func show(handles: Int) { set("tocsin_handles", handles) }

    /// Updates the metrics of the node's own tor, which a node without one does not have.
    func show(_ status: TorStatus) {
        registry.gauge("tocsin_tor_bootstrap_ratio").set(Double(status.bootstrap) / 100)
        set("tocsin_tor_descriptor_published", status.isReachable ? 1 : 0, [("onion", "")])
        for onion in status.onions {
            let isPublished = status.phase == .running && onion.descriptor == .published
            set("tocsin_tor_descriptor_published", isPublished ? 1 : 0, [("onion", "\(onion.name)")])
        }
        let restarts = registry.counter("tocsin_tor_restarts_total")
        restarts.increment(by: status.restarts - restarts.count)
    }

    /// Counts a key holder that has ended or does not answer.
    func countLostKeyHolder() { registry.counter("tocsin_key_holder_losses_total").increment() }

    /// Counts a system call that the sandbox has refused.
    func countRefusedCall() { registry.counter("tocsin_sandbox_refused_calls_total").increment() }

    /// Sets the metric of a credential's expiry, Unix time in seconds.
    func show(expiry: Int64, of app: String, kind: String) {
        let labels = [("app", app), ("kind", kind)]
        expiries.value(app, orInsert: registry.gauge("tocsin_credential_expiry_timestamp_seconds", labels)).set(expiry)
    }

    /// Updates the metrics that change every second.
    /// - Parameter tokenAges: the ages of Apple's provider tokens, in seconds, by app.
    func show(_ statistics: DispatchStatistics, connections: (tnp: Int, http: Int), tokenAges: [String: Int64]) {
        set("tocsin_connections", connections.tnp, [("door", "tnp")])
        set("tocsin_connections", connections.http, [("door", "http")])
        set("tocsin_in_flight", statistics.inFlight)
        set("tocsin_spool_envelopes", statistics.stored?.envelopes ?? 0)
        set("tocsin_spool_bytes", statistics.stored?.bytes ?? 0)
        for lane in statistics.lanes {
            let metrics = metrics(of: lane.route)
            if lane.route.magic == .web { show(lane.breaker, of: lane.route) }
            metrics.depth.set(lane.waiting)
            metrics.oldest.set(lane.oldest.components.seconds)
        }
        for (app, age) in tokenAges {
            let labels = [("app", app)]
            self.tokenAges.value(app, orInsert: registry.gauge("tocsin_apns_token_age_seconds", labels)).set(age)
        }
        let now = UnixTime.now
        if recent.isDue(at: now) { recent.add(sample(at: now)) }
    }

    private func show(_ state: Breaker.State, of route: Route) {
        for (each, gauge) in metrics(of: route).breaker { gauge.set(each == state ? 1 : 0) }
    }

    // MARK: For the dashboard

    private func sample(at now: Int64) -> RecentMetrics.Sample {
        RecentMetrics.Sample(
            time: now, stages: stages.mapValues(\.snapshot), routes: routes.all.mapValues(\.duration.snapshot),
            refusals: refusalsByReason)
    }

    private var refusalsByReason: [Reason: Int] {
        refusals.reduce(into: [:]) { $0[$1.key.reason, default: 0] += $1.value.count }
    }

    /// Rejections at admission by reason: in about the last hour, and since the start.
    var recentRefusals: [(reason: String, lastHour: Int, total: Int)] {
        let before = recent.oldest?.refusals ?? [:]
        return refusalsByReason.map { reason, total in
            (reason.description, total - (before[reason] ?? 0), total)
        }.sorted { ($1.lastHour, $1.total, $0.reason) < ($0.lastHour, $0.total, $1.reason) }
    }

    /// Latencies of the stages in about the last hour.
    var recentLatencies: [NodeSnapshot.Latency] {
        Stage.allCases.map { stage -> NodeSnapshot.Latency in
            let latest = stages[stage].map { Self.since(recent.oldest?.stages[stage], $0.snapshot) }
            return (stage.rawValue, latest?.quantile(0.5), latest?.quantile(0.9), latest?.quantile(0.99))
        }
    }

    /// The latency of a route's push service in about the last hour.
    func recentLatency(of route: Route) -> HistogramSnapshot? {
        routes.all[route].map { Self.since(recent.oldest?.routes[route], $0.duration.snapshot) }
    }

    private static func since(_ before: HistogramSnapshot?, _ all: HistogramSnapshot) -> HistogramSnapshot {
        before.map { all.since($0) } ?? all
    }

    /// The answers of a route's push service since the start, most frequent first.
    func answers(of route: Route) -> [(reason: String, count: Int)] {
        (routes.all[route]?.answers.all ?? [:]).map { (reason: $0.key, count: $0.value.count) }
            .sorted { ($1.count, $0.reason) < ($0.count, $1.reason) }
    }

    /// Counts a decision about a submission in a cluster.
    func decided(alone: Bool) { (alone ? decisions.node : decisions.engine).increment() }

    private lazy var decisions = (
        engine: registry.counter("tocsin_cluster_decisions_total", [("by", "engine")]),
        node: registry.counter("tocsin_cluster_decisions_total", [("by", "node")])
    )

    /// Updates the state of the cluster.
    func show(_ engine: Engine.Status) {
        set("tocsin_cluster_engine_available", engine.isAvailable ? 1 : 0)
        if let roundTrip = engine.roundTrip {
            registry.gauge("tocsin_cluster_engine_round_trip_seconds").set(roundTrip / .seconds(1))
        }
        if let offset = engine.clockOffset {
            registry.gauge("tocsin_cluster_clock_offset_seconds").set(offset / .seconds(1))
        }
        let living = engine.members.count(where: \.isAlive)
        set("tocsin_cluster_nodes", living, [("state", "alive")])
        set("tocsin_cluster_nodes", engine.members.count - living, [("state", "absent")])
    }

    /// Shows the state of the upstream nodes; removes the series of those that are gone.
    func show(_ nodes: [(app: String, node: Relay.Status)]) {
        guard !nodes.isEmpty || !upstreams.isEmpty else { return }
        let names = ["connections", "reachable", "puzzle_effort"].map { "tocsin_upstream_\($0)" }
        var gone = Set(upstreams.keys)
        for (app, node) in nodes {
            let key = UpstreamKey(app: app, node: "\(node.node)")
            gone.remove(key)
            let labels = [("app", app), ("node", key.node)]
            let gauges = upstreams.value(key, orInsert: names.map { registry.gauge($0, labels) })
            gauges[0].set(node.connections)
            gauges[1].set(node.isReachable(at: .now) == false ? 0 : 1)
            gauges[2].set(node.welcome?.welcome.puzzle.effort ?? 0)
        }
        for key in gone {
            for gauge in upstreams.removeValue(forKey: key) ?? [] { registry.remove(gauge) }
        }
    }

    /// Shows a canary that has not rung yet; removes its series if there is none.
    func show(canary: Configuration.Canary?, since start: Int64?) {
        guard let canary, let start else {
            for gauge in canaryGauges.values { registry.remove(gauge) }
            canaryGauges = [:]
            return
        }
        setCanary("interval_seconds", Int64(canary.interval))
        setCanary("last_success_timestamp_seconds", start)
    }

    /// Shows a result of the canary.
    func show(canary result: Canary.Result, lastSuccess: Int64) {
        setCanary("success", result.isDelivered ? 1 : 0)
        setCanary("last_success_timestamp_seconds", lastSuccess)
    }

    private func setCanary(_ name: String, _ value: Int64) {
        canaryGauges.value(name, orInsert: registry.gauge("tocsin_canary_\(name)")).set(value)
    }

    // MARK: Adding and removing series

    private func metrics(of route: Route) -> RouteMetrics {
        routes.value(route) { RouteMetrics($0, provider(of: $0), registry) }
    }

    /// Removes the series of a route that is no longer served, which makes room for others.
    func forget(_ route: Route) {
        guard let metrics = routes.remove(where: { $0 == route }).first else { return }
        metrics.remove(from: registry)
        for counter in envelopes.remove(where: { $0.route == route }) { registry.remove(counter) }
    }

    /// Removes the series of apps that have no provider token, or no certificate, any more.
    func keep(tokensOf tokens: Set<String>, certificatesOf certificates: Set<String>) {
        remove(&tokenAges) { !tokens.contains($0) }
        remove(&expiries) { !certificates.contains($0) }
    }

    /// Removes the series with these keys.
    private func remove<Key, Value: Series>(_ all: inout [Key: Value], where isGone: (Key) -> Bool) {
        for (key, series) in all where isGone(key) {
            all[key] = nil
            registry.remove(series)
        }
    }

    private static func labels(_ route: Route) -> [(String, String)] {
        [("app", route.app), ("magic", route.magic.rawValue)]
    }

    /// The labels of an app's push service in one environment.
    private func provider(of route: Route) -> [(String, String)] {
        [
            ("app", route.app),
            ("provider", relayed.contains(route) ? "upstream" : route.magic.provider),
            ("environment", route.magic == .iOSDev ? "development" : "production"),
        ]
    }
}

extension Magic {
    /// The name in metrics of the push service.
    fileprivate var provider: String {
        switch self {
        case .iOS, .iOSDev: "apns"
        case .android: "fcm"
        case .web: "web"
        }
    }
}

extension MetricFamily {
    /// A gauge with a series for each route.
    fileprivate static func route(_ name: String, _ help: String) -> MetricFamily {
        MetricFamily(name, .gauge, help: help, labels: ["app", "magic"], maximumSeries: NodeMetrics.maximumRoutes)
    }
}
