// SPDX-License-Identifier: Apache-2.0

import Providers

/// The state of the node in JSON. Names are stable; new ones may be added.
enum StatusJSON {
    /// The status and body of the response to `/readyz`.
    static func readiness(_ snapshot: NodeSnapshot) -> (status: Int, body: String) {
        let reasons = snapshot.notReady
        guard !reasons.isEmpty else { return (200, #"{"ready":true}"#) }
        return (503, Value.object([("ready", .flag(false)), ("reasons", .list(reasons.map(Value.text)))]).encoded)
    }

    /// The body of the response to `/status.json`.
    static func status(_ snapshot: NodeSnapshot) -> String {
        Value.object([
            ("now", .integer(snapshot.now)), ("version", .text(snapshot.version)),
            ("uptime_seconds", .integer(snapshot.uptime)), ("ready", .flag(snapshot.notReady.isEmpty)),
            ("reasons", .list(snapshot.notReady.map(Value.text))),
            (
                "connections",
                .object([("tnp", .count(snapshot.connections.tnp)), ("http", .count(snapshot.connections.http))])
            ),
            ("circuits", .count(snapshot.circuits)), ("in_flight", .count(snapshot.inFlight)),
            (
                "spool",
                .optional(snapshot.spool) {
                    .object([("envelopes", .count($0.envelopes)), ("bytes", .count($0.bytes))])
                }
            ),
            (
                "puzzle_effort",
                .object([
                    ("all", .integer(Int64(snapshot.effort.all))),
                    ("unproven", .integer(Int64(snapshot.effort.unproven))),
                ])
            ),
            ("hour", .list(snapshot.hour.map(bucket))), ("day", .list(snapshot.day.map(bucket))),
            ("refusals", .list(snapshot.refusals.map(refusal))),
            ("latencies", .list(snapshot.latencies.map(latency))), ("routes", .list(snapshot.routes.map(route))),
            ("credentials", .list(snapshot.credentials.map(credential))), ("tor", .optional(snapshot.tor, tor)),
            ("alarms", .list(snapshot.alarms.map(alarm))),
        ]).encoded
    }

    private static func bucket(_ bucket: NodeSnapshot.Bucket) -> Value {
        .object([
            ("start", .integer(bucket.start)), ("delivered", .count(bucket.delivered)),
            ("rejected", .count(bucket.rejected)), ("retry", .count(bucket.retry)), ("gone", .count(bucket.gone)),
        ])
    }

    private static func refusal(_ refusal: (reason: String, lastHour: Int, total: Int)) -> Value {
        .object([
            ("reason", .text(refusal.reason)), ("last_hour", .count(refusal.lastHour)),
            ("total", .count(refusal.total)),
        ])
    }

    private static func latency(_ latency: NodeSnapshot.Latency) -> Value {
        .object([
            ("stage", .text(latency.stage)), ("p50_seconds", .optional(latency.p50, Value.number)),
            ("p90_seconds", .optional(latency.p90, Value.number)),
            ("p99_seconds", .optional(latency.p99, Value.number)),
        ])
    }

    private static func route(_ route: NodeSnapshot.RouteState) -> Value {
        .object([
            ("name", .text(route.name)), ("breaker", .text(route.breaker)), ("refusal_wave", .flag(route.isSurge)),
            ("in_flight", .count(route.inFlight)), ("waiting", .count(route.waiting)),
            ("answers", .object(route.answers.map { ($0.reason, .count($0.count)) })),
            ("p50_seconds", .optional(route.p50, Value.number)), ("p99_seconds", .optional(route.p99, Value.number)),
        ])
    }

    private static func credential(_ credential: NodeSnapshot.Credential) -> Value {
        .object([
            ("app", .text(credential.app)), ("kind", .text(credential.kind)), ("file", .text(credential.file)),
            ("expires", .optional(credential.expires, Value.integer)),
        ])
    }

    private static func tor(_ tor: NodeSnapshot.Tor) -> Value {
        .object([
            ("address", .optional(tor.address, Value.text)), ("bootstrap_percent", .count(tor.bootstrap)),
            ("published", .flag(tor.isPublished)), ("restarts", .count(tor.restarts)),
            ("warning", .optional(tor.warning, Value.text)),
        ])
    }

    private static func alarm(_ alarm: NodeSnapshot.Alarm) -> Value {
        .object([
            ("time", .integer(alarm.time)), ("level", .text(alarm.level)), ("text", .text(alarm.text)),
            ("count", .count(alarm.count)),
        ])
    }

    /// A JSON value to encode.
    private indirect enum Value {
        case object([(String, Value)])
        case list([Value])
        case text(String)
        case integer(Int64)
        case number(Double)
        case flag(Bool)
        case null

        static func count(_ count: Int) -> Value { .integer(Int64(count)) }

        static func optional<Wrapped>(_ value: Wrapped?, _ make: (Wrapped) -> Value) -> Value {
            value.map(make) ?? .null
        }

        var encoded: String {
            switch self {
            case .object(let members):
                "{" + members.map { "\(Self.quoted($0.0)):\($0.1.encoded)" }.joined(separator: ",") + "}"
            case .list(let values): "[" + values.map(\.encoded).joined(separator: ",") + "]"
            case .text(let text): Self.quoted(text)
            case .integer(let number): "\(number)"
            // JSON has no infinity and no NaN.
            case .number(let number): number.isFinite ? "\(number)" : "null"
            case .flag(let flag): "\(flag)"
            case .null: "null"
            }
        }

        private static func quoted(_ text: String) -> String {
            "\"" + String(decoding: JSONText.escaped(text), as: UTF8.self) + "\""
        }
    }
}
