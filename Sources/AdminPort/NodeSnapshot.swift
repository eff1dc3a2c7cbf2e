// SPDX-License-Identifier: Apache-2.0

/// How the node stands at one moment, for people: what the dashboard shows. Nothing in it names a phone or a sender.
package struct NodeSnapshot: Sendable {
    /// Final outcomes in one stretch of time.
    package struct Bucket: Sendable, Equatable {
        /// Its beginning, Unix time in seconds.
        var start: Int64
        var delivered = 0
        var rejected = 0
        /// Senders were told to come again.
        var retry = 0
        var gone = 0
    }

    /// One app on one platform.
    package struct RouteState: Sendable {
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

    /// What shows Apple or Google who the node is.
    package struct Credential: Sendable {
        var app: String
        /// `APNs key`, `APNs certificate` or `FCM service account`.
        var kind: String
        /// The file's name, without its directory.
        var file: String
        /// Its last moment, Unix time in seconds; nil: it does not end.
        var expires: Int64?

        /// - Parameters: as the properties of the same names.
        package init(app: String, kind: String, file: String, expires: Int64? = nil) {
            self.app = app
            self.kind = kind
            self.file = file
            self.expires = expires
        }
    }

    /// A stage that an envelope goes through.
    package struct Latency: Sendable {
        /// `ingress`, `admission`, `queue`, `provider`
        var stage: String
        /// Seconds, the last hour; nil: nothing went through.
        var p50: Double?
        var p90: Double?
        var p99: Double?

        /// - Parameters: as the properties of the same names.
        package init(stage: String, p50: Double?, p90: Double?, p99: Double?) {
            self.stage = stage
            self.p50 = p50
            self.p90 = p90
            self.p99 = p99
        }
    }

    /// A tor that the node runs.
    package struct Tor: Sendable {
        /// Its onion address, once there is one.
        var address: String?
        /// 0 to 100.
        var bootstrap: Int
        /// Whether it can be found under its address.
        var isPublished: Bool
        var restarts: Int
        /// tor's own last warning.
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

    /// What the operator should know.
    package struct Alarm: Sendable, Equatable {
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
