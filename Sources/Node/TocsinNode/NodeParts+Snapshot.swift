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

    /// The part of a snapshot that ``AdminPort/Health`` needs.
    private func essentials(_ statistics: DispatchStatistics) -> NodeSnapshot {
        let now = UnixTime.now
        var snapshot = NodeSnapshot(now: now)
        snapshot.routes = statistics.lanes.map(state)
        snapshot.notReady = reasonsNotReady(statistics, snapshot.routes, at: now)
        snapshot.reload = reloadState
        snapshot.hour = metrics.history.hour(at: now)
        snapshot.credentials = credentials
        snapshot.cluster = cluster.map { state(of: $0.engine.status) }
        snapshot.canary = canary.canary.map { canary in
            NodeSnapshot.Canary(
                interval: canary.settings.interval, lastSuccess: canary.record.lastSuccess,
                last: canary.record.last)
        }
        snapshot.tor = torState
        return snapshot
    }

    var health: Health { Health(essentials(dispatch.statistics)) }

    func snapshot() -> NodeSnapshot {
        let statistics = dispatch.statistics
        var snapshot = essentials(statistics)
        snapshot.name = configuration.name
        snapshot.version = Version.current
        snapshot.uptime = (MonotonicTime.now - started).components.seconds
        for (index, lane) in statistics.lanes.enumerated() {
            let latency = metrics.recentLatency(of: lane.route)
            snapshot.routes[index].day = history.hours(of: "\(lane.route)", at: snapshot.now)
            snapshot.routes[index].answers = metrics.answers(of: lane.route)
            snapshot.routes[index].p50 = latency?.quantile(0.5)
            snapshot.routes[index].p99 = latency?.quantile(0.99)
        }
        snapshot.connections = connections.countByProtocol
        snapshot.circuits = intakeState.admission.known.circuits
        snapshot.inFlight = statistics.inFlight
        snapshot.spool = statistics.stored
        snapshot.handles = handles?.use.count
        snapshot.effort = efforts
        snapshot.starts = history.starts
        snapshot.day = metrics.history.day(at: snapshot.now)
        snapshot.refusals = metrics.recentRefusals
        snapshot.latencies = metrics.recentLatencies
        snapshot.upstreams = providers.upstreams.map { app, node in
            NodeSnapshot.Upstream(
                app: app, node: "\(node.node)", connections: node.connections, isReachable: node.isReachable(at: .now),
                effort: node.welcome?.welcome.puzzle.effort ?? 0, failure: node.failure?.text)
        }
        snapshot.machine = machine.gauges(of: configuration.state, at: .now)
        snapshot.alarms = alarms.alarms
        return snapshot
    }

    var efforts: (all: UInt32, unproven: UInt32) { intakeState.admission.efforts }

    var tables: [(name: String, entries: Int, bound: Int)] { intakeState.admission.tables + dispatch.tables }

    private func reasonsNotReady(
        _ statistics: DispatchStatistics, _ routes: [NodeSnapshot.RouteState], at now: Int64
    ) -> [Concern] {
        var reasons: [Concern] = []
        if !isServing { reasons.append(Concern("the node is starting")) }
        if isStopping { reasons.append(Concern("the node is stopping")) }
        if let keyHolder, keyHolder.credentials == nil {
            reasons.append(
                Concern("the process with the keys of Apple and Google is lost", "see the log", see: .keyHolderLost))
        }
        reasons += NodeSnapshot.reasonsNotReady(routes, at: now)
        if let shortage = statistics.shortage {
            reasons.append(Concern("the spool takes no more envelopes", shortage.text, see: .spoolRefuses))
        }
        if let status = onions.status, !status.isReachable {
            reasons.append(
                status.problem.map { Concern("the onion cannot be reached", "\($0)", see: .onionNotPublished) }
                    ?? Concern("the onion cannot be reached yet", see: .onionNotPublished))
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
        var state = NodeSnapshot.RouteState(name: lane.route.description)
        state.app = lane.route.app
        // One credential serves all environments of a push service: its routes share the name.
        let isRelayed = metrics.relayed.contains(lane.route)
        state.credential = isRelayed ? state.name : "\(lane.route.app)/\(lane.route.magic.service.name)"
        state.hasLanePerServer = lane.route.magic.service.hasLanePerServer
        state.isOptional = lane.route.magic.service.environment == .development
        state.record = metrics.record(of: lane.route)
        state.nextProbe = lane.nextProbe?.components.seconds
        state.breaker = lane.breaker.rawValue
        state.isSurge = lane.hasTokenRefusalSurge
        state.inFlight = lane.inFlight
        state.waiting = lane.waiting
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
