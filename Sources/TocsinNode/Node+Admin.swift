// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Admission
import Delivery
import EventLoop
import Logging
import NodeConfiguration
import Prometheus
import Providers
import TNP
import Time
import Tor

/// What the node shows of itself at the admin port.
extension Node: AdminServer.Source {
    package nonisolated func snapshot() -> NodeSnapshot { assumeIsolated { $0.makeSnapshot() } }

    package nonisolated func metrics() -> [UInt8] { registry.expose() }

    package nonisolated var isAlive: Bool { assumeIsolated { !$0.isStopping } }

    func openAdminPort() throws(ListenError) {
        guard let endpoint = configuration.listen.admin else { return }
        let server = try AdminServer(at: endpoint, on: loop, source: self)
        admin = server
        adminEndpoint = server.endpoint
    }

    /// A second has passed: what is shown of it is brought up to date.
    func updateMetrics() {
        let now = UnixTime.now
        figures.show(connections: connectionsByProtocol)
        figures.show(dispatch.statistics)
        for (app, token) in providerTokens {
            figures.show(ageOfToken: token.age(at: .now), of: app)
        }
        if recent.isDue(at: now) { recent.add(mark(at: now)) }
    }

    private func mark(at now: Int64) -> RecentMetrics.Sample {
        var mark = RecentMetrics.Sample(time: now)
        for stage in NodeMetrics.Stage.allCases {
            mark.stages[stage.rawValue] = registry.histogram(
                "tocsin_stage_duration_seconds", where: ["stage": stage.rawValue])
        }
        for lane in dispatch.statistics.lanes { mark.providers[lane.route.description] = latency(of: lane.route) }
        mark.refusals = registry.sums("tocsin_refusals_total", by: "reason")
        return mark
    }

    private func latency(of route: Route) -> HistogramSnapshot? {
        registry.histogram(
            "tocsin_provider_duration_seconds", where: Dictionary(uniqueKeysWithValues: NodeMetrics.provider(of: route))
        )
    }

    // MARK: Snapshot

    func makeSnapshot() -> NodeSnapshot {
        let now = UnixTime.now
        let standing = dispatch.statistics
        let efforts = admission.efforts
        return NodeSnapshot(
            now: now, version: Version.current, uptime: (MonotonicTime.now - started).components.seconds,
            notReady: reasonsNotReady(standing), connections: connectionsByProtocol, circuits: admission.known.circuits,
            inFlight: standing.inFlight, spool: standing.stored, effort: (efforts.all, efforts.unproven),
            hour: history.hour(at: now), day: history.day(at: now), refusals: recentRefusals(), latencies: latencies(),
            routes: standing.lanes.map(state), credentials: credentials(), tor: torState(), alarms: alarms.alarms)
    }

    private func reasonsNotReady(_ standing: DispatchStatistics) -> [String] {
        var reasons: [String] = []
        if !isServing { reasons.append("the node is starting") }
        if isStopping { reasons.append("the node is stopping") }
        if standing.lanes.allSatisfy({ $0.breaker != .closed }) {
            reasons.append("no push service works for any app: see the routes, and the log for what they answer")
        }
        if let shortage = standing.shortage { reasons.append("the spool takes no more envelopes: \(shortage.text)") }
        if let torStatus, !torStatus.isReachable {
            reasons.append("the onion cannot be reached" + (torStatus.problem.map { ": \($0)" } ?? " yet"))
        }
        return reasons
    }

    private func recentRefusals() -> [(reason: String, lastHour: Int, total: Int)] {
        let before = recent.oldest?.refusals ?? [:]
        return registry.sums("tocsin_refusals_total", by: "reason").map { name, total in
            let text = Reason.known.first { $0.name == name }?.text ?? name
            return (text, Int(total - (before[name] ?? 0)), Int(total))
        }.sorted { ($1.lastHour, $1.total, $0.reason) < ($0.lastHour, $0.total, $1.reason) }
    }

    private func latencies() -> [NodeSnapshot.Latency] {
        NodeMetrics.Stage.allCases.map { stage in
            let name = stage.rawValue
            let all = registry.histogram("tocsin_stage_duration_seconds", where: ["stage": name])
            let latest = Self.since(recent.oldest?.stages[name], all)
            return NodeSnapshot.Latency(
                stage: name, p50: latest?.quantile(0.5), p90: latest?.quantile(0.9), p99: latest?.quantile(0.99))
        }
    }

    private static func since(_ before: HistogramSnapshot?, _ all: HistogramSnapshot?) -> HistogramSnapshot? {
        before.map { all?.since($0) } ?? all
    }

    private func state(of lane: DispatchStatistics.Lane) -> NodeSnapshot.RouteState {
        let labels = Dictionary(uniqueKeysWithValues: NodeMetrics.provider(of: lane.route))
        let answers = registry.sums("tocsin_provider_results_total", by: "reason", where: labels)
        let latest = Self.since(recent.oldest?.providers[lane.route.description], latency(of: lane.route))
        return NodeSnapshot.RouteState(
            name: lane.route.description, breaker: lane.breaker.rawValue, isSurge: lane.hasTokenRefusalSurge,
            inFlight: lane.inFlight, waiting: lane.waiting,
            answers: answers.map { (reason: $0.key, count: Int($0.value)) }
                .sorted { ($1.count, $0.reason) < ($0.count, $1.reason) },
            p50: latest?.quantile(0.5), p99: latest?.quantile(0.99))
    }

    private func credentials() -> [NodeSnapshot.Credential] {
        configuration.apps.flatMap { app in
            var credentials: [NodeSnapshot.Credential] = []
            switch app.apns?.credential {
            case .token(let file, _, _)?:
                credentials.append(
                    NodeSnapshot.Credential(app: app.name, kind: "APNs key", file: Self.name(of: file)))
            case .certificate(let file, _)?:
                credentials.append(
                    NodeSnapshot.Credential(
                        app: app.name, kind: "APNs certificate", file: Self.name(of: file),
                        expires: certificates.first { $0.file == file }?.notAfter))
            case nil: break
            }
            if let file = app.fcm?.serviceAccountFile {
                credentials.append(
                    NodeSnapshot.Credential(app: app.name, kind: "FCM service account", file: Self.name(of: file)))
            }
            return credentials
        }
    }

    private static func name(of file: String) -> String { String(file.split(separator: "/").last ?? "") }

    private func torState() -> NodeSnapshot.Tor? {
        torStatus.map {
            NodeSnapshot.Tor(
                address: $0.address.map { "\($0)" }, bootstrap: $0.bootstrap, isPublished: $0.descriptor == .published,
                restarts: $0.restarts, warning: $0.lastWarning)
        }
    }

    // MARK: tor

    /// Starts the node's own tor, where it has one.
    func startTor(for tnp: Endpoint) async {
        guard configuration.tor.managed == true else { return }
        let settings = configuration.tor.settings(state: configuration.state)
        let tor = ManagedTor(settings, ports: settings.ports(tnp: tnp, http: httpEndpoint), on: loop) {
            [weak self] status in
            self?.assumeIsolated { $0.torChanged(status) }
        }
        self.tor = tor
        torStatus = TorStatus()
        await tor.start()
    }

    private func torChanged(_ status: TorStatus) {
        let before = torStatus
        torStatus = status
        figures.show(status)
        if let trouble = status.problem, trouble != before?.problem, !isStopping,
            throttle.allows("tor \(trouble)", at: .now)
        {
            logger.error("\(trouble)")
        }
        if status.address != before?.address { learnOnion(status) }
        if status.isReachable, before?.isReachable != true, let address = status.address {
            logger.notice("the onion can be reached", metadata: ["address": "\(address)"])
            whenReachable?(address)
        }
    }
}
