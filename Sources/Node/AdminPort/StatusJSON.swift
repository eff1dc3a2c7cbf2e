// SPDX-License-Identifier: Apache-2.0

import Providers

/// The state of the node in JSON. Names are stable; new ones may be added.
enum StatusJSON {
    /// The status and body of the response to `/readyz`.
    static func readiness(_ snapshot: NodeSnapshot) -> (status: Int, body: String) {
        guard !snapshot.notReady.isEmpty else { return (200, #"{"ready":true}"#) }
        let object: JSONObject = ["ready": false, "reasons": snapshot.notReady.map(\.text)]
        return (503, object.json)
    }

    /// The body of the response to `/status.json`.
    static func status(_ snapshot: NodeSnapshot) -> String {
        let (connections, effort) = (snapshot.connections, snapshot.effort)
        let object: JSONObject = [
            "now": snapshot.now, "name": snapshot.name, "version": snapshot.version, "uptime_seconds": snapshot.uptime,
            "ready": snapshot.notReady.isEmpty, "reasons": snapshot.notReady.map(\.text), "health": health(snapshot),
            "reload": reload(snapshot.reload),
            "connections": ["tnp": connections.tnp, "http": connections.http] as JSONObject,
            "circuits": snapshot.circuits, "in_flight": snapshot.inFlight, "spool": snapshot.spool.map(spool),
            "handles": snapshot.handles,
            "puzzle_effort": ["all": effort.all, "unproven": effort.unproven] as JSONObject,
            "hour": snapshot.hour.map(bucket), "day": snapshot.day.map(bucket),
            "refusals": snapshot.refusals.map(refusal), "latencies": snapshot.latencies.map(latency),
            "routes": routes(snapshot), "credentials": snapshot.credentials.map(credential),
            "upstreams": snapshot.upstreams.map(upstream),
            "cluster": snapshot.cluster.map(cluster), "canary": snapshot.canary.map(canary),
            "tor": snapshot.tor.map(tor),
            "machine": snapshot.machine.map(gauge), "starts": snapshot.starts,
            "alarms": snapshot.alarms.map(alarm),
        ]
        return object.json
    }

    private static func spool(_ spool: (envelopes: Int, bytes: Int)) -> JSONObject {
        ["envelopes": spool.envelopes, "bytes": spool.bytes]
    }

    private static func bucket(_ bucket: NodeSnapshot.Bucket) -> JSONObject {
        [
            "start": bucket.start, "delivered": bucket.delivered, "rejected": bucket.rejected, "retry": bucket.retry,
            "gone": bucket.gone,
        ]
    }

    private static func refusal(_ refusal: (reason: String, lastHour: Int, total: Int)) -> JSONObject {
        ["reason": refusal.reason, "last_hour": refusal.lastHour, "total": refusal.total]
    }

    private static func latency(_ latency: NodeSnapshot.Latency) -> JSONObject {
        ["stage": latency.stage, "p50_seconds": latency.p50, "p90_seconds": latency.p90, "p99_seconds": latency.p99]
    }

    private static func health(_ snapshot: NodeSnapshot) -> JSONObject {
        let health = Health(snapshot)
        return [
            "grade": health.grade.rawValue, "summary": health.summary, "reasons": health.reasons,
            "see": health.sections.map { "operations.md#\($0.rawValue.lowercased())" },
        ]
    }

    private static func reload(_ reload: ReloadState) -> JSONObject {
        func failure(_ subject: ReloadState.Subject) -> JSONObject? {
            reload.failures[subject].map { ["since": $0.since, "error": $0.text] }
        }
        return [
            "configuration_failure": failure(.configuration), "credentials_failure": failure(.credentials),
            "restart_pending": reload.restartKeys,
        ]
    }

    private static func routes(_ snapshot: NodeSnapshot) -> [JSONObject] {
        RouteConditions(snapshot.routes, at: snapshot.now).routes.map(route)
    }

    private static func route(_ route: NodeSnapshot.RouteState, _ condition: RouteCondition) -> JSONObject {
        [
            "name": route.name, "state": condition.rawValue, "last_delivery": route.record.lastDelivery,
            "probe": route.record.probe.map {
                ["time": $0.time, "verdict": $0.verdict.rawValue, "answer": $0.answer] as JSONObject
            },
            "shut_since": route.record.shut?.since, "shut_after": route.record.shut?.answer,
            "next_probe_seconds": route.nextProbe, "breaker": route.breaker, "token_refusal_surge": route.isSurge,
            // The name of `token_refusal_surge` in an earlier release.
            "refusal_wave": route.isSurge, "in_flight": route.inFlight,
            "waiting": route.waiting, "hours": route.day.map(bucket),
            "answers": JSONObject(members: route.answers.map { ($0.reason, $0.count) }),
            "p50_seconds": route.p50, "p99_seconds": route.p99,
        ]
    }

    private static func credential(_ credential: NodeSnapshot.Credential) -> JSONObject {
        ["app": credential.app, "kind": credential.kind, "file": credential.file, "expires": credential.expires]
    }

    private static func upstream(_ upstream: NodeSnapshot.Upstream) -> JSONObject {
        [
            "app": upstream.app, "node": upstream.node, "connections": upstream.connections,
            "reachable": upstream.isReachable, "puzzle_effort": upstream.effort, "failure": upstream.failure,
        ]
    }

    private static func cluster(_ cluster: NodeSnapshot.Cluster) -> JSONObject {
        [
            "available": cluster.isAvailable, "slow": cluster.isSlow, "problem": cluster.problem,
            "seconds": cluster.seconds,
            "round_trip_seconds": cluster.roundTrip, "clock_offset_seconds": cluster.clockOffset,
            "nodes": cluster.nodes.map(clusterNode),
        ]
    }

    private static func clusterNode(_ node: NodeSnapshot.ClusterNode) -> JSONObject {
        ["name": node.name, "version": node.version, "alive": node.isAlive, "absent_seconds": node.absence]
    }

    private static func canary(_ canary: NodeSnapshot.Canary) -> JSONObject {
        [
            "every_seconds": canary.interval, "last_success": canary.lastSuccess,
            "delivered": canary.last?.isDelivered, "text": canary.last?.text,
        ]
    }

    private static func tor(_ tor: NodeSnapshot.Tor) -> JSONObject {
        [
            "address": tor.address, "bootstrap_percent": tor.bootstrap, "published": tor.isPublished,
            "onions": tor.onions.map(onion), "restarts": tor.restarts, "warning": tor.warning,
        ]
    }

    private static func onion(_ onion: NodeSnapshot.Onion) -> JSONObject {
        ["name": onion.name, "address": onion.address, "published": onion.isPublished]
    }

    private static func gauge(_ gauge: NodeSnapshot.Gauge) -> JSONObject {
        ["name": gauge.name, "used": gauge.used, "of": gauge.bound]
    }

    private static func alarm(_ alarm: NodeSnapshot.Alarm) -> JSONObject {
        ["time": alarm.time, "level": alarm.level, "text": alarm.text, "count": alarm.count, "set_up": alarm.isSetUp]
    }
}

/// A value that JSON can represent.
private protocol JSONValue {
    var json: String { get }
}

extension JSONValue where Self: CustomStringConvertible {
    var json: String { description }
}

extension Bool: JSONValue {}
extension Int: JSONValue {}
extension Int64: JSONValue {}
extension UInt32: JSONValue {}

extension Double: JSONValue {
    // JSON has no infinity and no NaN.
    fileprivate var json: String { isFinite ? description : "null" }
}

extension String: JSONValue {
    fileprivate var json: String { "\"\(JSONText.escaped(self))\"" }
}

extension Optional: JSONValue where Wrapped: JSONValue {
    fileprivate var json: String { self?.json ?? "null" }
}

extension Array: JSONValue where Element: JSONValue {
    fileprivate var json: String { "[" + map(\.json).joined(separator: ",") + "]" }
}

/// A JSON object with its members in order.
private struct JSONObject: JSONValue {
    let members: [(String, any JSONValue)]

    var json: String { "{" + members.map { "\($0.json):\($1.json)" }.joined(separator: ",") + "}" }
}

extension JSONObject: ExpressibleByDictionaryLiteral {
    init(dictionaryLiteral elements: (String, any JSONValue)...) { members = elements }
}
