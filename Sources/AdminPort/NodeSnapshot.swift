// SPDX-License-Identifier: Apache-2.0

/// The state of the node at one moment, as the dashboard shows it. Identifies no phone and no sender.
package struct NodeSnapshot: Sendable {
    /// The numbers of final outcomes in one time interval.
    package struct Bucket: Sendable, Equatable {
        /// Start of the interval, Unix time in seconds.
        var start: Int64
        var delivered = 0
        var rejected = 0
        var retry = 0
        var gone = 0
    }

    /// The state of a route: one app on one platform.
    package struct RouteState: Sendable {
        /// The name, e.g. `bisq/iOS`.
        var name: String
        /// The state of the circuit breaker: `closed`, `open` or `half-open`.
        var breaker: String
        /// Whether there is a surge of token refusals, which points to a wrong environment or topic.
        var isSurge: Bool
        /// Envelopes in flight.
        var inFlight: Int
        /// Envelopes in the fair queue, which are part of those in flight.
        var waiting: Int
        /// The number of each answer since the start, most frequent first.
        var answers: [(reason: String, count: Int)]
        /// Latency of answers in the last hour, in seconds; `nil` if there were none.
        var p50: Double?
        var p99: Double?

        /// - Parameters: as the properties of the same names.
        package init(
            name: String, breaker: String, isSurge: Bool, inFlight: Int, waiting: Int,
            answers: [(reason: String, count: Int)], p50: Double?, p99: Double?
        ) {
            self.name = name
            self.breaker = breaker
            self.isSurge = isSurge
            self.inFlight = inFlight
            self.waiting = waiting
            self.answers = answers
            self.p50 = p50
            self.p99 = p99
        }
    }

    /// A credential for APNs or FCM: its kind (`APNs key`, `APNs certificate` or `FCM service account`), the file's name
    /// without its directory, and its expiry, Unix time in seconds; `nil` if it does not expire.
    package typealias Credential = (app: String, kind: String, file: String, expires: Int64?)

    /// The latency of one stage of an envelope's path through the node (`ingress`, `admission`, `queue` or `provider`) in
    /// the last hour, in seconds; `nil` if no envelope passed the stage.
    package typealias Latency = (stage: String, p50: Double?, p90: Double?, p99: Double?)

    /// The state of the node's own tor.
    package struct Tor: Sendable {
        /// The onion address; `nil` until tor has created it.
        var address: String?
        /// Progress of the connection to the Tor network, in percent.
        var bootstrap: Int
        /// Whether the descriptor of the onion service is published.
        var isPublished: Bool
        var restarts: Int
        /// The last warning that tor logged.
        var warning: String?

        /// - Parameters: as the properties of the same names.
        package init(address: String?, bootstrap: Int, isPublished: Bool, restarts: Int, warning: String?) {
            self.address = address
            self.bootstrap = bootstrap
            self.isPublished = isPublished
            self.restarts = restarts
            self.warning = warning
        }
    }

    /// A message of level `warning` or higher.
    package struct Alarm: Sendable, Equatable {
        /// The last occurrence, Unix time in seconds.
        var time: Int64
        /// The level: `warning`, `error` or `critical`.
        var level: String
        /// The message with its metadata.
        var text: String
        /// The number of occurrences.
        var count: Int
    }

    /// Unix time in seconds.
    var now: Int64
    var version: String
    /// Seconds since the start.
    var uptime: Int64
    /// The reasons why the node is not ready; empty if it is.
    var notReady: [String]
    /// Open connections of senders, over TNP and over HTTP.
    var connections: (tnp: Int, http: Int)
    /// Known circuits.
    var circuits: Int
    /// Envelopes in memory without a final outcome.
    var inFlight: Int
    /// Stored envelopes and their size; `nil` if the spool is disabled.
    var spool: (envelopes: Int, bytes: Int)?
    /// Required effort in expected hashes, for all submissions and for those to unproven device tokens; 0 if none.
    var effort: (all: UInt32, unproven: UInt32)
    /// The minutes of the last hour, oldest first; the last one is incomplete.
    var hour: [Bucket]
    /// The ten-minute intervals of the last day, oldest first; the last one is incomplete.
    var day: [Bucket]
    /// Submissions rejected at admission, by the text of the reason, most frequent first.
    var refusals: [(reason: String, lastHour: Int, total: Int)]
    var latencies: [Latency]
    var routes: [RouteState]
    var credentials: [Credential]
    /// `nil` if the node does not run tor.
    var tor: Tor?
    /// The alarms, latest first.
    var alarms: [Alarm]

    /// - Parameters: as the properties of the same names.
    package init(
        now: Int64, version: String, uptime: Int64, notReady: [String], connections: (tnp: Int, http: Int),
        circuits: Int, inFlight: Int, spool: (envelopes: Int, bytes: Int)?, effort: (all: UInt32, unproven: UInt32),
        hour: [Bucket], day: [Bucket], refusals: [(reason: String, lastHour: Int, total: Int)], latencies: [Latency],
        routes: [RouteState], credentials: [Credential], tor: Tor?, alarms: [Alarm]
    ) {
        self.now = now
        self.version = version
        self.uptime = uptime
        self.notReady = notReady
        self.connections = connections
        self.circuits = circuits
        self.inFlight = inFlight
        self.spool = spool
        self.effort = effort
        self.hour = hour
        self.day = day
        self.refusals = refusals
        self.latencies = latencies
        self.routes = routes
        self.credentials = credentials
        self.tor = tor
        self.alarms = alarms
    }
}
