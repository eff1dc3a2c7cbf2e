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
        .envelopes, .providerResults, .refusals, .abuseBlocks, .httpResponses, .stageDuration,
        .providerDuration, .connections, .circuits, .inFlight, .queueDepth, .queueOldest, .spoolEnvelopes,
        .spoolBytes, .spoolRefusals, .spoolUnreadable, .breakerState, .tokenRefusalSurge, .probeFailed, .puzzleEffort,
        .deviceTokens, .handles, .apnsTokenAge, .credentialExpiry, .upstreamConnections, .upstreamReachable,
        .upstreamPuzzleEffort, .clusterEngineAvailable, .clusterEngineRoundTrip, .clusterClockOffset,
        .clusterNodes, .clusterDecisions, .canarySuccess, .canaryLastSuccess, .canaryInterval,
        .reloadFailed, .restartPending, .torBootstrapRatio, .torDescriptorPublished, .torRestarts, .keyHolderLosses,
        .sandboxRefusedCalls,
        BuildInfo.family,
    ]

    fileprivate static let maximumApps = 85
    fileprivate static let maximumRoutes = 3 * maximumApps
    /// Bucket bounds in seconds: from a decision in memory to the longest wait for an answer.
    fileprivate static let durations = [
        0.00001, 0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60,
    ]

    /// A stage of an envelope's path through the node.
    enum Stage: String, CaseIterable {
        /// Decoding: from the bytes to a submission.
        case ingress
        /// Admission: from the submission to the decision.
        case admission
        /// Waiting in the queue of the lane.
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
        let probeFailed: Gauge
        let depth: Gauge
        let oldest: Gauge
        /// What the dashboard shows of the route.
        var record = RouteRecord()

        /// - Parameter provider: the labels of the route's push service.
        init(_ route: Route, _ provider: [String], _ registry: PrometheusRegistry) {
            let labels = NodeMetrics.labels(route)
            duration = registry.histogram(.providerDuration, provider)
            breaker = Dictionary(
                uniqueKeysWithValues: Breaker.State.allCases.map {
                    ($0, registry.gauge(.breakerState, labels + [$0.rawValue]))
                })
            surge = registry.gauge(.tokenRefusalSurge, labels)
            probeFailed = registry.gauge(.probeFailed, labels)
            depth = registry.gauge(.queueDepth, labels)
            oldest = registry.gauge(.queueOldest, labels)
        }

        func remove(from registry: PrometheusRegistry) {
            for answer in answers.all.values { registry.remove(answer) }
            registry.remove(duration)
            for gauge in Array(breaker.values) + [surge, probeFailed, depth, oldest] { registry.remove(gauge) }
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
    /// The routes that upstream nodes serve. A route that a reload adds or removes here starts with new series, which
    /// have another label.
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
    /// When routes that are not served yet delivered last.
    private var restoredDeliveries: [String: Int64] = [:]

    /// - Parameter registry: must contain the families of ``catalogue``.
    init(_ registry: PrometheusRegistry = PrometheusRegistry(NodeMetrics.catalogue)) {
        self.registry = registry
        ProcessCollector.register(in: registry)
        BuildInfo.register(Version.current, in: registry)
        func durations(in stage: Stage) -> Histogram {
            registry.histogram(.stageDuration, [stage.rawValue])
        }
        ingressDurations = durations(in: .ingress)
        admissionDurations = durations(in: .admission)
        queueDurations = durations(in: .queue)
        providerDurations = durations(in: .provider)
        abuseBlocks = registry.counter(.abuseBlocks)
        spoolFailures = registry.counter(.spoolRefusals)
        // These metrics are 0 from the start: an alert compares with the value before.
        for family in [MetricFamily.keyHolderLosses, .sandboxRefusedCalls, .torRestarts] {
            _ = registry.counter(family)
        }
        for status in [200, 400, 429, 500, 503] { _ = registry.counter(.httpResponses, ["\(status)"]) }
        for senderProtocol in ["tnp", "http"] {
            for known in Reason.known { _ = registry.counter(.refusals, [senderProtocol, known.name]) }
        }
        for family in [MetricFamily.circuits, .inFlight, .spoolEnvelopes, .spoolBytes, .spoolUnreadable] {
            set(family, 0)
        }
        for senderProtocol in ["tnp", "http"] { set(.connections, 0, [senderProtocol]) }
        for target in ["all", "unproven"] { set(.puzzleEffort, 0, [target]) }
        for standing in ["proven", "unknown", "dead"] { set(.deviceTokens, 0, [standing]) }
    }

    /// Sets a gauge, which it looks up: for gauges that change at most once a second.
    private func set(_ family: MetricFamily, _ value: some BinaryInteger, _ values: [String] = []) {
        registry.gauge(family, values).set(value)
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
        case .serving(let route):
            show(.closed, of: route)
            metrics(of: route).record.servedAnew()
            metrics(of: route).probeFailed.set(0)
            if let time = restoredDeliveries.removeValue(forKey: "\(route)") {
                metrics(of: route).record.restoreDelivery(at: time)
            }
            _ = answerCounter("accepted", of: route)
            for senderProtocol in ["tnp", "http"] {
                for kind in Outcome.Kind.allCases { _ = envelopeCounter(kind, of: route, at: senderProtocol) }
            }
        case .recovered(let envelope, let app, let outcome):
            answered(outcome, of: Route(app: app, magic: envelope.magic), at: "spool")
        case .unprovenTokenRefused, .spoolShortage: break
        // One of many push servers: `show(_:connections:tokenAges:)` shows all breakers of the route as one.
        case .breaker(let route, _, _) where route.magic.service.hasLanePerServer: break
        case .breaker(let route, let state, let answer):
            show(state, of: route)
            metrics(of: route).record.breakerChanged(isClosed: state == .closed, after: answer, at: UnixTime.now)
        case .tokenRefusalSurge(let route, let isActive): metrics(of: route).surge.set(isActive ? 1 : 0)
        case .spoolRefused: spoolFailures.increment()
        case .spoolUnreadable(let count): set(.spoolUnreadable, count)
        }
    }

    /// Counts an attempt that has ended.
    func count(_ attempt: EndedAttempt, _ result: AttemptResult) {
        let metrics = metrics(of: attempt.route)
        answerCounter(result.answer, of: attempt.route).increment()
        record(attempt.waited, in: .queue)
        record(attempt.took, in: .provider)
        metrics.duration.record(attempt.took)
        // An upstream node's RETRY neither counts as a failure of the lane nor shows that it works.
        if result.disposition.lane == .success, result.outcome.kind != .retry {
            if metrics.record.probe?.verdict == .bad { metrics.probeFailed.set(0) }
            metrics.record.answered(isDelivered: result.outcome.kind == .delivered, at: UnixTime.now)
        }
    }

    /// What the route has done since the start, and since its present provider serves it.
    func record(of route: Route) -> RouteRecord { metrics(of: route).record }

    /// Records the answer to a probe.
    func probed(_ route: Route, _ probe: RouteRecord.Probe) {
        let metrics = metrics(of: route)
        metrics.record.probe = probe
        metrics.probeFailed.set(probe.verdict == .bad ? 1 : 0)
    }

    private func answerCounter(_ answer: String, of route: Route) -> Counter {
        metrics(of: route).answers.value(answer) { registry.counter(.providerResults, provider(of: route) + [$0]) }
    }

    /// Counts a final outcome.
    /// - Parameter protocolName: `tnp`, `http`, or `spool` if an earlier process or another node of the cluster
    ///   accepted the envelope.
    func answered(_ outcome: Outcome, of route: Route, at protocolName: String) {
        if protocolName != "spool" { history.count(outcome.kind, at: UnixTime.now) }
        envelopeCounter(outcome.kind, of: route, at: protocolName).increment()
    }

    private func envelopeCounter(_ kind: Outcome.Kind, of route: Route, at protocolName: String) -> Counter {
        envelopes.value(EnvelopeKey(protocolName: protocolName, route: route, kind: kind)) { key in
            registry.counter(.envelopes, [key.protocolName] + Self.labels(key.route) + [key.kind.name])
        }
    }

    /// Counts a submission that was not admitted.
    func refused(_ refusal: Refusal, at protocolName: String) {
        guard let reason = refusal.outcome?.reason else { return }
        refusals.value(
            RefusalKey(protocolName: protocolName, reason: reason),
            orInsert: registry.counter(.refusals, [protocolName, reason.name])
        ).increment()
    }

    /// Counts a response of the HTTP API.
    func responded(_ status: Int) {
        responses.value(
            status, orInsert: registry.counter(.httpResponses, ["\(status)"])
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
        set(.puzzleEffort, efforts.all, ["all"])
        set(.puzzleEffort, efforts.unproven, ["unproven"])
        set(.deviceTokens, known.proven, ["proven"])
        set(.deviceTokens, known.unproven, ["unknown"])
        set(.deviceTokens, known.dead, ["dead"])
        set(.circuits, known.circuits)
    }

    /// Updates the number of handles.
    func show(handles: Int) { set(.handles, handles) }

    /// Updates the metrics of the node's own tor. A node without one has only the counter of restarts.
    func show(_ status: TorStatus) {
        registry.gauge(.torBootstrapRatio).set(Double(status.bootstrap) / 100)
        set(.torDescriptorPublished, status.isReachable ? 1 : 0, [""])
        for onion in status.onions {
            let isPublished = status.phase == .running && onion.descriptor == .published
            set(.torDescriptorPublished, isPublished ? 1 : 0, ["\(onion.name)"])
        }
        let restarts = registry.counter(.torRestarts)
        restarts.increment(by: status.restarts - restarts.count)
    }

    /// Counts a key holder that has ended or does not answer, or the supervisor's end, after which no other one starts.
    func countLostKeyHolder() { registry.counter(.keyHolderLosses).increment() }

    /// Counts a system call that the sandbox has refused.
    func countRefusedCall() { registry.counter(.sandboxRefusedCalls).increment() }

    /// Sets the metric of a credential's expiry, Unix time in seconds.
    func show(expiry: Int64, of app: String, kind: String) {
        let labels = [app, kind]
        expiries.value(app, orInsert: registry.gauge(.credentialExpiry, labels)).set(expiry)
    }

    /// Updates the metrics that change every second.
    /// - Parameter tokenAges: the ages of Apple's provider tokens, in seconds, by app.
    func show(_ statistics: DispatchStatistics, connections: (tnp: Int, http: Int), tokenAges: [String: Int64]) {
        set(.connections, connections.tnp, ["tnp"])
        set(.connections, connections.http, ["http"])
        set(.inFlight, statistics.inFlight)
        set(.spoolEnvelopes, statistics.stored?.envelopes ?? 0)
        set(.spoolBytes, statistics.stored?.bytes ?? 0)
        for lane in statistics.lanes {
            let metrics = metrics(of: lane.route)
            if lane.route.magic.service.hasLanePerServer { show(lane.breaker, of: lane.route) }
            metrics.depth.set(lane.waiting)
            metrics.oldest.set(lane.oldest.components.seconds)
        }
        for (app, age) in tokenAges {
            let labels = [app]
            self.tokenAges.value(app, orInsert: registry.gauge(.apnsTokenAge, labels)).set(age)
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

    /// Continues the history that earlier processes have saved.
    func restore(_ history: NodeHistory) {
        self.history.restore(history.intervals)
        restoredDeliveries = history.routes.compactMapValues(\.lastDelivery)
    }

    /// When each route delivered last, Unix times in seconds.
    var lastDeliveries: [String: Int64] {
        var times = restoredDeliveries
        for (route, metrics) in routes.all { times["\(route)"] = metrics.record.lastDelivery }
        return times
    }

    /// What became of notifications and submissions since the start.
    var totals: NodeTotals {
        var totals = NodeTotals()
        for (key, counter) in envelopes.all where counter.count > 0 {
            totals.outcomes["\(key.route)", default: [:]][key.kind.name, default: 0] += Int(counter.count)
        }
        for (reason, count) in refusalsByReason { totals.refusals[reason.name] = count }
        return totals
    }

    /// The reasons that push services cause (PROTOCOL §4): admission may repeat one that it knows of a device token.
    private static let pushServiceReasons: ClosedRange<UInt16> = 301...399

    /// Rejections at admission by reason, without ``pushServiceReasons``: in about the last hour, and since the start.
    var recentRefusals: [(reason: String, lastHour: Int, total: Int)] {
        let before = recent.oldest?.refusals ?? [:]
        return refusalsByReason.filter { !Self.pushServiceReasons.contains($0.key.rawValue) }.map { reason, total in
            (reason.description, total - (before[reason] ?? 0), total)
        }.sorted { ($1.lastHour, $1.total, $0.reason) < ($0.lastHour, $0.total, $1.reason) }
    }

    /// Latencies of the stages in about the last hour.
    var recentLatencies: [NodeSnapshot.Latency] {
        Stage.allCases.map { stage -> NodeSnapshot.Latency in
            let latest = stages[stage].map { Self.since(recent.oldest?.stages[stage], $0.snapshot) }
            return NodeSnapshot.Latency(
                stage: stage.rawValue, p50: latest?.quantile(0.5), p90: latest?.quantile(0.9),
                p99: latest?.quantile(0.99))
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
            .filter { $0.count > 0 }
            .sorted { ($1.count, $0.reason) < ($0.count, $1.reason) }
    }

    /// Counts a decision about a submission in a cluster: of this node `alone`, or of the engine.
    func decided(alone: Bool) { (alone ? decisions.node : decisions.engine).increment() }

    private lazy var decisions = (
        engine: registry.counter(.clusterDecisions, ["engine"]),
        node: registry.counter(.clusterDecisions, ["node"])
    )

    /// Updates the state of the cluster.
    func show(_ engine: Engine.Status) {
        _ = decisions
        set(.clusterEngineAvailable, engine.isAvailable ? 1 : 0)
        if let roundTrip = engine.roundTrip {
            registry.gauge(.clusterEngineRoundTrip).set(roundTrip / .seconds(1))
        }
        if let offset = engine.clockOffset {
            registry.gauge(.clusterClockOffset).set(offset / .seconds(1))
        }
        let living = engine.members.count(where: \.isAlive)
        set(.clusterNodes, living, ["alive"])
        set(.clusterNodes, engine.members.count - living, ["absent"])
    }

    /// Updates the metrics of reloads.
    func show(_ reload: ReloadState) {
        for subject in ReloadState.Subject.allCases {
            set(.reloadFailed, reload.failures[subject] == nil ? 0 : 1, [subject.rawValue])
        }
        set(.restartPending, reload.restartKeys.count)
    }

    /// Shows the state of the upstream nodes; removes the series of those that are gone.
    func show(_ nodes: [(app: String, node: UpstreamStatus)]) {
        guard !nodes.isEmpty || !upstreams.isEmpty else { return }
        let families: [MetricFamily] = [.upstreamConnections, .upstreamReachable, .upstreamPuzzleEffort]
        var gone = Set(upstreams.keys)
        for (app, node) in nodes {
            let key = UpstreamKey(app: app, node: "\(node.node)")
            gone.remove(key)
            let labels = [app, key.node]
            let gauges = upstreams.value(key, orInsert: families.map { registry.gauge($0, labels) })
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
        setCanary(.canaryInterval, Int64(canary.interval))
        setCanary(.canaryLastSuccess, start)
    }

    /// Shows a result of the canary.
    func show(canary result: NodeSnapshot.Attempt, lastSuccess: Int64) {
        setCanary(.canarySuccess, result.isDelivered ? 1 : 0)
        setCanary(.canaryLastSuccess, lastSuccess)
    }

    private func setCanary(_ family: MetricFamily, _ value: Int64) {
        canaryGauges.value(family.name, orInsert: registry.gauge(family)).set(value)
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

    /// Removes the token ages of apps other than `tokens`, and the expiries of apps other than `certificates`.
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

    private static func labels(_ route: Route) -> [String] { [route.app, route.magic.rawValue] }

    /// The labels of an app's push service in one environment: app, provider, environment. No two routes have the same.
    private func provider(of route: Route) -> [String] {
        let service = route.magic.service
        return [
            route.app, relayed.contains(route) ? "upstream-\(service.name)" : service.name,
            service.environment.rawValue,
        ]
    }
}

extension MetricFamily {
    /// A gauge with a series for each route.
    fileprivate static func route(_ name: String, _ help: String, formerName: String? = nil) -> MetricFamily {
        MetricFamily(
            name, .gauge, help: help, labels: ["app", "magic"], maximumSeries: NodeMetrics.maximumRoutes,
            formerName: formerName)
    }

    fileprivate static let envelopes = MetricFamily(
        "tocsin_envelopes_total", .counter,
        help: "Final outcomes of notifications; protocol is spool if an earlier process accepted them.",
        labels: ["protocol", "app", "magic", "outcome"], maximumSeries: NodeMetrics.maximumRoutes * 15,
        formerLabels: ["protocol": "door"])
    fileprivate static let providerResults = MetricFamily(
        "tocsin_provider_results_total", .counter, help: "Answers of push services to attempts.",
        labels: ["app", "provider", "environment", "reason"], maximumSeries: NodeMetrics.maximumRoutes * 40)
    fileprivate static let refusals = MetricFamily(
        "tocsin_refusals_total", .counter, help: "Submissions rejected at admission, by reason.",
        labels: ["protocol", "reason"], maximumSeries: 100, formerLabels: ["protocol": "door"])
    fileprivate static let abuseBlocks = MetricFamily(
        "tocsin_abuse_blocks_total", .counter, help: "Times that a circuit was blocked for abuse.")
    fileprivate static let httpResponses = MetricFamily(
        "tocsin_http_responses_total", .counter, help: "Responses of the HTTP API.", labels: ["status"],
        maximumSeries: 30)
    fileprivate static let stageDuration = MetricFamily(
        "tocsin_stage_duration_seconds", .histogram(buckets: NodeMetrics.durations),
        help: "Time that a notification spends in a stage.", labels: ["stage"], maximumSeries: 4)
    fileprivate static let providerDuration = MetricFamily(
        "tocsin_provider_duration_seconds", .histogram(buckets: NodeMetrics.durations),
        help: "Time until the push service answers.", labels: ["app", "provider", "environment"],
        maximumSeries: NodeMetrics.maximumRoutes)
    fileprivate static let connections = MetricFamily(
        "tocsin_connections", .gauge, help: "Connections of senders.", labels: ["protocol"], maximumSeries: 2,
        formerLabels: ["protocol": "door"])
    fileprivate static let circuits = MetricFamily("tocsin_circuits", .gauge, help: "Circuits in the circuit table.")
    fileprivate static let inFlight = MetricFamily(
        "tocsin_in_flight", .gauge, help: "Notifications in memory without a final outcome.")
    fileprivate static let queueDepth = MetricFamily.route(
        "tocsin_queue_depth", "Notifications queued for a push service.")
    fileprivate static let queueOldest = MetricFamily.route(
        "tocsin_queue_oldest_seconds", "Age of the oldest notification in the queue.")
    fileprivate static let spoolEnvelopes = MetricFamily(
        "tocsin_spool_envelopes", .gauge, help: "Notifications in the spool.")
    fileprivate static let spoolBytes = MetricFamily(
        "tocsin_spool_bytes", .gauge, help: "Bytes of the spool that notifications and outcomes use.")
    fileprivate static let spoolRefusals = MetricFamily(
        "tocsin_spool_refusals_total", .counter, help: "Failures of the spool to store or load notifications.")
    fileprivate static let spoolUnreadable = MetricFamily(
        "tocsin_spool_unreadable", .gauge, help: "Rows of the spool that could not be read and were dropped.")
    fileprivate static let breakerState = MetricFamily(
        "tocsin_breaker_state", .gauge,
        help: "1 for the state of the push service's circuit breaker: closed, open or half-open (probing).",
        labels: ["app", "magic", "state"], maximumSeries: NodeMetrics.maximumRoutes * 3)
    fileprivate static let tokenRefusalSurge = MetricFamily.route(
        "tocsin_token_refusal_surge", "1 during a surge of token refusals: the environment or the topic must be wrong.",
        formerName: "tocsin_refusal_wave")
    fileprivate static let probeFailed = MetricFamily.route(
        "tocsin_probe_failed",
        "1 if the push service refused the last probe, which rings no phone, and has answered no notification since.")
    fileprivate static let puzzleEffort = MetricFamily(
        "tocsin_puzzle_effort", .gauge, help: "Required proof of work in expected hashes; 0: none.",
        labels: ["scope"], maximumSeries: 2, formerLabels: ["scope": "asked_of"])
    fileprivate static let deviceTokens = MetricFamily(
        "tocsin_device_tokens", .gauge, help: "Device tokens in the table, by standing.", labels: ["standing"],
        maximumSeries: 3)
    fileprivate static let handles = MetricFamily(
        "tocsin_handles", .gauge, help: "Registered handles; none if the node keeps no handles.")
    fileprivate static let apnsTokenAge = MetricFamily(
        "tocsin_apns_token_age_seconds", .gauge, help: "Age of the APNs provider token.", labels: ["app"],
        maximumSeries: NodeMetrics.maximumApps)
    fileprivate static let credentialExpiry = MetricFamily(
        "tocsin_credential_expiry_timestamp_seconds", .gauge, help: "Expiry of a credential.",
        labels: ["app", "kind"], maximumSeries: NodeMetrics.maximumApps * 2)
    fileprivate static let upstreamConnections = MetricFamily(
        "tocsin_upstream_connections", .gauge, help: "Connections to an upstream node.", labels: ["app", "node"],
        maximumSeries: NodeMetrics.maximumApps * 8)
    fileprivate static let upstreamReachable = MetricFamily(
        "tocsin_upstream_reachable", .gauge,
        help:
            "0 if the last connection to the upstream node failed less than 30 minutes ago and it has not answered since; else 1.",
        labels: ["app", "node"], maximumSeries: NodeMetrics.maximumApps * 8)
    fileprivate static let upstreamPuzzleEffort = MetricFamily(
        "tocsin_upstream_puzzle_effort", .gauge,
        help: "Effort in the upstream node's last WELCOME, in expected hashes.",
        labels: ["app", "node"], maximumSeries: NodeMetrics.maximumApps * 8)
    fileprivate static let clusterEngineAvailable = MetricFamily(
        "tocsin_cluster_engine_available", .gauge, help: "1 while the node can use the engine of its cluster.")
    fileprivate static let clusterEngineRoundTrip = MetricFamily(
        "tocsin_cluster_engine_round_trip_seconds", .gauge,
        help: "Time between the node's last heartbeat to the engine and its reply.")
    fileprivate static let clusterClockOffset = MetricFamily(
        "tocsin_cluster_clock_offset_seconds", .gauge, help: "The engine's clock minus the node's.")
    fileprivate static let clusterNodes = MetricFamily(
        "tocsin_cluster_nodes", .gauge, help: "Nodes of the cluster in the last day, by whether they live.",
        labels: ["state"], maximumSeries: 2)
    fileprivate static let clusterDecisions = MetricFamily(
        "tocsin_cluster_decisions_total", .counter,
        help: "Submissions by who decided: all nodes together (engine), or the node alone (node).", labels: ["by"],
        maximumSeries: 2)
    fileprivate static let canarySuccess = MetricFamily(
        "tocsin_canary_success", .gauge, help: "1 if the canary rang the operator's phone last time.")
    fileprivate static let canaryLastSuccess = MetricFamily(
        "tocsin_canary_last_success_timestamp_seconds", .gauge,
        help: "When the canary last rang the operator's phone; the node's start before the first time.")
    fileprivate static let canaryInterval = MetricFamily(
        "tocsin_canary_interval_seconds", .gauge, help: "Time between two notifications of the canary.")
    fileprivate static let reloadFailed = MetricFamily(
        "tocsin_reload_failed", .gauge,
        help: "1 if the configuration, or a credential, on disk is invalid: the node goes on with what it read before.",
        labels: ["file"], maximumSeries: ReloadState.Subject.allCases.count)
    fileprivate static let restartPending = MetricFamily(
        "tocsin_restart_pending", .gauge,
        help: "Number of keys of the configuration on disk that take effect after a restart.")
    fileprivate static let torBootstrapRatio = MetricFamily(
        "tocsin_tor_bootstrap_ratio", .gauge, help: "Bootstrap progress of the node's own tor, 0 to 1.")
    fileprivate static let torDescriptorPublished = MetricFamily(
        "tocsin_tor_descriptor_published", .gauge,
        help: "1 while the onion's descriptor is published; without a label for the first onion.",
        labels: ["onion"], maximumSeries: 17)
    fileprivate static let torRestarts = MetricFamily(
        "tocsin_tor_restarts_total", .counter, help: "Restarts of the node's own tor.")
    fileprivate static let keyHolderLosses = MetricFamily(
        "tocsin_key_holder_losses_total", .counter, help: "Key holders that ended or did not answer.")
    fileprivate static let sandboxRefusedCalls = MetricFamily(
        "tocsin_sandbox_refused_calls_total", .counter,
        help: "System calls of the node and its tor that the sandbox refused.")
}
