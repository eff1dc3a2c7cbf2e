// SPDX-License-Identifier: Apache-2.0

/// How the node stands at one moment, for people: what the dashboard shows. Nothing in it names a phone or a sender.
struct NodeSnapshot: Sendable {
    /// Final outcomes in one stretch of time.
    struct Bucket: Sendable, Equatable {
        /// Its beginning, Unix time in seconds.
        var start: Int64
        var delivered = 0
        var rejected = 0
        /// Senders were told to come again.
        var retry = 0
        var gone = 0
    }

    /// One app on one platform.
    struct RouteState: Sendable {
        /// `bisq/iOS`
        var name: String
        /// `closed` (it works), `open` or `half-open`.
        var breaker: String
        /// Whether so many device tokens are refused that environment or topic must be wrong.
        var isSurge: Bool
        /// Envelopes under way.
        var inFlight: Int
        /// Of them, those that wait for their turn.
        var waiting: Int
        /// How often each answer came since the start, most frequent first.
        var answers: [(reason: String, count: Int)]
        /// Seconds for an answer, the last hour; nil: there was none.
        var p50: Double?
        var p99: Double?
    }

    /// What shows Apple or Google who the node is.
    struct Credential: Sendable {
        var app: String
        /// `APNs key`, `APNs certificate` or `FCM service account`.
        var kind: String
        /// The file's name, without its directory.
        var file: String
        /// Its last moment, Unix time in seconds; nil: it does not end.
        var expires: Int64?
    }

    /// A stage that an envelope goes through.
    struct Latency: Sendable {
        /// `ingress`, `admission`, `queue`, `provider`
        var stage: String
        /// Seconds, the last hour; nil: nothing went through.
        var p50: Double?
        var p90: Double?
        var p99: Double?
    }

    /// A tor that the node runs.
    struct Tor: Sendable {
        /// Its onion address, once there is one.
        var address: String?
        /// 0 to 100.
        var bootstrap: Int
        /// Whether it can be found under its address.
        var isPublished: Bool
        var restarts: Int
        /// tor's own last warning.
        var warning: String?
    }

    /// What the operator should know.
    struct Alarm: Sendable, Equatable {
        /// Unix time in seconds of the last time.
        var time: Int64
        /// `warning`, `error` or `critical`.
        var level: String
        /// What it is and what to do.
        var text: String
        /// How often it came.
        var count: Int
    }

    /// Unix time in seconds.
    var now: Int64
    var version: String
    /// Seconds since the start.
    var uptime: Int64
    /// Why the node is not ready; empty: it is.
    var notReady: [String]
    /// Connections of senders at the moment: by TNP, and by HTTP.
    var connections: (tnp: Int, http: Int)
    var circuits: Int
    var inFlight: Int
    /// Envelopes on disk, and their bytes; nil: nothing is stored.
    var spool: (envelopes: Int, bytes: Int)?
    /// Expected hashes that are asked for: of everybody, and for device tokens not accepted yet; 0: nothing.
    var effort: (all: UInt32, unproven: UInt32)
    /// Minutes of the last hour, and stretches of 10 minutes of the last day; oldest first, the last one unfinished.
    var hour: [Bucket]
    var day: [Bucket]
    /// What was refused at the endpoint in the last hour and since the start, by reason in words, most frequent first.
    var refusals: [(reason: String, lastHour: Int, total: Int)]
    var latencies: [Latency]
    var routes: [RouteState]
    var credentials: [Credential]
    /// Nil: the node runs none.
    var tor: Tor?
    /// Latest first.
    var alarms: [Alarm]
}
