// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Admission
import Cluster
import Delivery
import KeyHolder
import NodeConfiguration
import Prometheus
import Providers
import TNP
import Time
import Tor

/// The node's state, as the admin port shows it.
extension NodeParts: AdminServer.Source {
    func metricsText() -> [UInt8] { metrics.exposition }

    var isAlive: Bool { !isStopping }

    func snapshot() -> NodeSnapshot {
        let now = UnixTime.now
        let statistics = dispatch.statistics
        var snapshot = NodeSnapshot(now: now)
        snapshot.version = Version.current
        snapshot.uptime = (MonotonicTime.now - started).components.seconds
        snapshot.routes = statistics.lanes.map(state)
        snapshot.notReady = reasonsNotReady(statistics, snapshot.routes, at: now)
        snapshot.connections = connections.countByProtocol
        snapshot.circuits = intakeState.admission.known.circuits
        snapshot.inFlight = statistics.inFlight
        snapshot.spool = statistics.stored
        snapshot.handles = handles?.count
        snapshot.effort = intakeState.admission.efforts
        snapshot.hour = metrics.history.hour(at: now)
        snapshot.day = metrics.history.day(at: now)
        snapshot.refusals = metrics.recentRefusals
        snapshot.latencies = metrics.recentLatencies
        snapshot.credentials = credentials
        snapshot.upstreams = providers.upstreams.map { app, node in
            NodeSnapshot.Upstream(
                app: app, node: "\(node.node)", connections: node.connections, isReachable: node.isReachable(at: .now),
                effort: node.welcome?.welcome.puzzle.effort ?? 0, failure: node.failure?.text)
        }
        snapshot.cluster = cluster.map { state(of: $0.engine.status) }
        snapshot.canary = canary.canary.map { canary in
            NodeSnapshot.Canary(
                interval: canary.settings.interval, lastSuccess: canary.record.lastSuccess,
                last: canary.record.last.map { NodeSnapshot.Attempt(isDelivered: $0.isDelivered, text: $0.text) })
        }
        snapshot.tor = torState
        snapshot.alarms = alarms.alarms
        return snapshot
    }

    var tables: [(name: String, entries: Int, bound: Int)] { intakeState.admission.tables + dispatch.tables }

    private func reasonsNotReady(
        _ statistics: DispatchStatistics, _ routes: [NodeSnapshot.RouteState], at now: Int64
    ) -> [String] {
        var reasons: [String] = []
        if !isServing { reasons.append("the node is starting") }
        if isStopping { reasons.append("the node is stopping") }
        if let holder = isolation?.holder, holder.credentials == nil {
            reasons.append("the process with the keys of Apple and Google is lost: see the log")
        }
        reasons += NodeSnapshot.reasonsNotReady(routes, at: now)
        if let shortage = statistics.shortage { reasons.append("the spool takes no more envelopes: \(shortage.text)") }
        if let status = onions.status, !status.isReachable {
            reasons.append("the onion cannot be reached" + (status.problem.map { ": \($0)" } ?? " yet"))
        }
        return reasons
    }

    private func state(of engine: Engine.Status) -> NodeSnapshot.Cluster {
        NodeSnapshot.Cluster(
            isAvailable: engine.isAvailable, isSlow: engine.isSlow, problem: engine.problem?.description,
            seconds: (MonotonicTime.now - engine.since).components.seconds,
            roundTrip: engine.roundTrip.map { $0 / .seconds(1) },
            clockOffset: engine.clockOffset.map { $0 / .seconds(1) },
            nodes: engine.members.map {
                NodeSnapshot.ClusterNode(
                    name: $0.name, version: $0.version, isAlive: $0.isAlive, absence: $0.absence.components.seconds)
            })
    }

    private func state(of lane: DispatchStatistics.Lane) -> NodeSnapshot.RouteState {
        let latency = metrics.recentLatency(of: lane.route)
        var state = NodeSnapshot.RouteState(name: lane.route.description)
        state.app = lane.route.app
        // A credential serves all environments of a push service.
        let isRelayed = metrics.relayed.contains(lane.route)
        state.credential = isRelayed ? state.name : "\(lane.route.app)/\(lane.route.magic.service.name)"
        state.hasLanePerServer = lane.route.magic.service.hasLanePerServer
        state.record = metrics.record(of: lane.route)
        state.nextProbe = lane.nextProbe?.components.seconds
        state.breaker = lane.breaker.rawValue
        state.isSurge = lane.hasTokenRefusalSurge
        state.inFlight = lane.inFlight
        state.waiting = lane.waiting
        state.answers = metrics.answers(of: lane.route)
        state.p50 = latency?.quantile(0.5)
        state.p99 = latency?.quantile(0.99)
        return state
    }

    private var credentials: [NodeSnapshot.Credential] {
        var credentials: [NodeSnapshot.Credential] = []
        for app in configuration.apps {
            for use in app.deliveries.flatMap(\.credentials) {
                let file = use.reference.files[0]
                credentials.append(
                    NodeSnapshot.Credential(
                        app: app.name, kind: use.title, file: String(file.split(separator: "/").last ?? ""),
                        expires: providers.certificates.first { $0.file == file }?.notAfter))
            }
        }
        return credentials
    }

    private var torState: NodeSnapshot.Tor? {
        onions.status.map {
            NodeSnapshot.Tor(
                address: $0.address.map { "\($0)" }, bootstrap: $0.bootstrap, isPublished: $0.descriptor == .published,
                onions: $0.onions.map {
                    NodeSnapshot.Onion(
                        name: "\($0.name)", address: "\($0.address)", isPublished: $0.descriptor == .published)
                }, restarts: $0.restarts, warning: $0.lastWarning)
        }
    }
}
