// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Admission
import Delivery
import EventLoop
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
        let (admission, efforts) = (intake.admission, intake.admission.efforts)
        return NodeSnapshot(
            now: now, version: Version.current, uptime: (MonotonicTime.now - started).components.seconds,
            notReady: reasonsNotReady(statistics), connections: connections.countByProtocol,
            circuits: admission.known.circuits, inFlight: statistics.inFlight, spool: statistics.stored,
            effort: (efforts.all, efforts.unproven), hour: metrics.history.hour(at: now),
            day: metrics.history.day(at: now), refusals: metrics.recentRefusals, latencies: metrics.recentLatencies,
            routes: statistics.lanes.map(state), credentials: credentials, tor: torState, alarms: alarms.alarms)
    }

    private func reasonsNotReady(_ statistics: DispatchStatistics) -> [String] {
        var reasons: [String] = []
        if !isServing { reasons.append("the node is starting") }
        if isStopping { reasons.append("the node is stopping") }
        if statistics.lanes.allSatisfy({ $0.breaker != .closed }) {
            reasons.append("no push service works for any app: see the routes, and the log for their answers")
        }
        if let shortage = statistics.shortage { reasons.append("the spool takes no more envelopes: \(shortage.text)") }
        if let status = torStatus, !status.isReachable {
            reasons.append("the onion cannot be reached" + (status.problem.map { ": \($0)" } ?? " yet"))
        }
        return reasons
    }

    private func state(of lane: DispatchStatistics.Lane) -> NodeSnapshot.RouteState {
        let latency = metrics.recentLatency(of: lane.route)
        return NodeSnapshot.RouteState(
            name: lane.route.description, breaker: lane.breaker.rawValue, isSurge: lane.hasTokenRefusalSurge,
            inFlight: lane.inFlight, waiting: lane.waiting, answers: metrics.answers(of: lane.route),
            p50: latency?.quantile(0.5), p99: latency?.quantile(0.99))
    }

    private var credentials: [NodeSnapshot.Credential] {
        var credentials: [NodeSnapshot.Credential] = []
        for app in configuration.apps {
            func add(_ kind: String, _ file: String, expires: Int64? = nil) {
                let name = String(file.split(separator: "/").last ?? "")
                credentials.append((app: app.name, kind: kind, file: name, expires: expires))
            }
            switch app.apns?.credential {
            case .token(let file, _, _)?: add("APNs key", file)
            case .certificate(let file, _)?:
                let expires = providers.certificates.first { $0.file == file }?.notAfter
                add("APNs certificate", file, expires: expires)
            case nil: break
            }
            if let file = app.fcm?.serviceAccountFile { add("FCM service account", file) }
        }
        return credentials
    }

    private var torState: NodeSnapshot.Tor? {
        torStatus.map {
            NodeSnapshot.Tor(
                address: $0.address.map { "\($0)" }, bootstrap: $0.bootstrap, isPublished: $0.descriptor == .published,
                restarts: $0.restarts, warning: $0.lastWarning)
        }
    }
}
