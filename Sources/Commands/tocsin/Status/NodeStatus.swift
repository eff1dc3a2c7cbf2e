// SPDX-License-Identifier: Apache-2.0

import Console
import FoundationEssentials
import Settings

/// The status of a running node, from `/status.json`, and its text for a terminal.
struct NodeStatus: Decodable {
    struct Health: Decodable {
        let grade: String
        let summary: String
        let reasons: [String]
        let see: [String]
    }

    struct Bucket: Decodable {
        let delivered: Int
        let rejected: Int
        let retry: Int
        let gone: Int
    }

    struct Route: Decodable {
        let name: String
        let state: String
        let probe: Probe?
        let lastDelivery: Int64?
        let shutSince: Int64?
        let shutAfter: String?
        let inFlight: Int
        let waiting: Int
    }

    struct Probe: Decodable {
        let time: Int64
        let verdict: String
        let answer: String
    }

    struct Refusal: Decodable {
        let reason: String
        let lastHour: Int
    }

    struct Connections: Decodable {
        let tnp: Int
        let http: Int
    }

    struct Spool: Decodable {
        let envelopes: Int
        let bytes: Int
    }

    struct Tor: Decodable {
        let address: String?
        let bootstrapPercent: Int
        let published: Bool
    }

    struct Alarm: Decodable {
        let time: Int64
        let level: String
        let text: String
        let count: Int
        let setUp: Bool
    }

    struct Gauge: Decodable {
        let name: String
        let used: Int
        let of: Int?
    }

    let now: Int64
    let name: String?
    let version: String
    let uptimeSeconds: Int64
    let ready: Bool
    let health: Health
    let connections: Connections
    let inFlight: Int
    let spool: Spool?
    let hour: [Bucket]
    let day: [Bucket]
    let refusals: [Refusal]
    let routes: [Route]
    let tor: Tor?
    let machine: [Gauge]
    let alarms: [Alarm]

    /// Maximum number of alarms that the text shows.
    private static let shownAlarms = 5

    init(json: [UInt8]) throws {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        self = try decoder.decode(Self.self, from: Data(json))
    }

    /// The lines, the most important one first.
    var lines: [String] {
        var lines = ["\(health.grade): \(health.summary)"] + health.reasons.map { "  \($0)" }
        if !health.see.isEmpty { lines.append("  what to do: \(health.see.joined(separator: ", "))") }
        lines += [
            "",
            "\(name.map { "\($0): " } ?? "")tocsin \(version), up for \(Format.span(uptimeSeconds)), at \(Format.time(now))",
        ]
        if let tor {
            lines.append(
                "onion      \(tor.address ?? "none yet"), \(tor.published ? "published" : "not published, tor at \(tor.bootstrapPercent) %")"
            )
        }
        lines.append("senders    \(connections.tnp) over TNP, \(connections.http) over HTTP; \(inFlight) in flight")
        if let spool { lines.append("spool      \(spool.envelopes) stored, \(Format.bytes(spool.bytes))") }
        lines += ["last hour  \(Self.text(hour))", "last day   \(Self.text(day))"]
        let refused = refusals.filter { $0.lastHour > 0 }.map { "\($0.lastHour) × \($0.reason)" }
        let used = machine.compactMap { gauge in gauge.of.map { "\(gauge.name) \(gauge.used * 100 / max(1, $0)) %" } }
        if !used.isEmpty { lines.append("machine    \(used.joined(separator: "; "))") }
        if !refused.isEmpty { lines.append("refused    in the last hour: \(refused.joined(separator: "; "))") }
        return lines + [""] + routeLines + alarmLines
    }

    private static func text(_ buckets: [Bucket]) -> String {
        func sum(_ count: (Bucket) -> Int) -> Int { buckets.reduce(0) { $0 + count($1) } }
        return
            "\(sum(\.delivered)) delivered, \(sum(\.rejected)) rejected, \(sum(\.retry)) to retry, \(sum(\.gone)) gone"
    }

    private var routeLines: [String] {
        let width = (routes.map(\.name.count).max() ?? 0) + 2
        return routes.map { route in
            let state =
                switch route.state {
                case "untried": "not tried yet"
                case "probed": "not tried yet; it answers a probe"
                case "working": "working"
                case "suspect" where route.probe?.verdict == "bad":
                    "answered a probe with \(route.probe?.answer ?? ""), at \(Format.time(route.probe?.time ?? 0))"
                case "suspect": "not tried; its credential does not work on another route"
                default:
                    "shut" + (route.shutAfter.map { " after \($0)" } ?? "")
                        + (route.shutSince.map { ", since \(Format.time($0))" } ?? "")
                }
            let last = route.lastDelivery.map { ", last delivery \(Format.span(now - $0)) ago" } ?? ""
            let queue = route.inFlight > 0 ? ", \(route.inFlight) in flight, \(route.waiting) queued" : ""
            return Terminal.padded(route.name, width) + state + last + queue
        }
    }

    private var alarmLines: [String] {
        let advice = alarms.filter(\.setUp).map { "  \($0.text)" }
        return incidentLines + (advice.isEmpty ? [] : ["", "set-up:"] + advice)
    }

    private var incidentLines: [String] {
        let alarms = alarms.filter { !$0.setUp }
        guard !alarms.isEmpty else { return [] }
        let shown = alarms.prefix(Self.shownAlarms).map { alarm in
            "\(Format.time(alarm.time))  \(alarm.level)\(alarm.count > 1 ? " (\(alarm.count) times)" : "")  \(alarm.text)"
        }
        let rest = alarms.count - shown.count
        return ["", "alarms, latest first:"] + shown.map { "  \($0)" } + (rest > 0 ? ["  and \(rest) more"] : [])
    }
}
