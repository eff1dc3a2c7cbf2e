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
        package let name: String
        /// The state of the circuit breaker: `closed`, `open` or `half-open`.
        package var breaker = "closed"
        /// Whether there is a surge of token refusals, which points to a wrong environment or topic.
        package var isSurge = false
        /// Envelopes in flight.
        package var inFlight = 0
        /// Envelopes in the fair queue, which are part of those in flight.
        package var waiting = 0
        /// The number of each answer since the start, most frequent first.
        package var answers: [(reason: String, count: Int)] = []
        /// Latency of answers in the last hour, in seconds; `nil` if there were none.
        package var p50: Double?
        package var p99: Double?
    }

    /// A credential for APNs or FCM: its kind (`APNs key`, `APNs certificate` or `FCM service account`), the file's name
    /// without its directory, and its expiry, Unix time in seconds; `nil` if it does not expire.
    package typealias Credential = (app: String, kind: String, file: String, expires: Int64?)

    /// The latency of one stage of an envelope's path through the node (`ingress`, `admission`, `queue` or `provider`) in
    /// the last hour, in seconds; `nil` if no envelope passed the stage.
    package typealias Latency = (stage: String, p50: Double?, p90: Double?, p99: Double?)

    /// The state of the node's own tor: the onion address (`nil` until tor has created it), the progress of the connection
    /// to the Tor network in percent, whether the descriptor of the onion service is published, the further onions, the
    /// number of restarts, and the last warning that tor logged.
    package typealias Tor = (
        address: String?, bootstrap: Int, isPublished: Bool, onions: [Onion], restarts: Int, warning: String?
    )

    /// A further onion: its name in the configuration, its address, and whether its descriptor is published.
    package typealias Onion = (name: String, address: String, isPublished: Bool)

    /// An upstream node of an app: its address, the open connections, whether it can be reached as far as is known, the
    /// effort in its last WELCOME, and why the last connection failed or ended.
    package typealias Upstream = (
        app: String, node: String, connections: Int, isReachable: Bool?, effort: UInt32, failure: String?
    )

    /// The canary: seconds between two notifications, the last success (Unix time in seconds; before the first one, the
    /// start), and the last attempt (`nil` before the first one).
    package typealias Canary = (interval: Int, lastSuccess: Int64, last: (isDelivered: Bool, text: String)?)

    /// The cluster: whether its engine can be used, why not, the seconds since that changed, the round trip and the
    /// engine's clock minus this node's (in seconds), and the nodes.
    package typealias Cluster = (
        isAvailable: Bool, isSlow: Bool, problem: String?, seconds: Int64, roundTrip: Double?, clockOffset: Double?,
        nodes: [ClusterNode]
    )

    /// A node of the cluster: its name, the version that it runs, whether it lives, and the seconds since its last sign of
    /// life.
    package typealias ClusterNode = (name: String, version: String, isAlive: Bool, absence: Int64)

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
    package let now: Int64
    package var version = ""
    /// Seconds since the start.
    package var uptime: Int64 = 0
    /// The reasons why the node is not ready; empty if it is.
    package var notReady: [String] = []
    /// Open connections of senders, over TNP and over HTTP.
    package var connections: (tnp: Int, http: Int) = (0, 0)
    /// Known circuits.
    package var circuits = 0
    /// Envelopes in memory without a final outcome.
    package var inFlight = 0
    /// Stored envelopes and their size; `nil` if the spool is disabled.
    package var spool: (envelopes: Int, bytes: Int)?
    /// Registered handles; `nil` if the node keeps none.
    package var handles: Int?
    /// Required effort in expected hashes, for all submissions and for those to unproven device tokens; 0 if none.
    package var effort: (all: UInt32, unproven: UInt32) = (0, 0)
    /// The minutes of the last hour, oldest first; the last one is incomplete.
    package var hour: [Bucket] = []
    /// The ten-minute intervals of the last day, oldest first; the last one is incomplete.
    package var day: [Bucket] = []
    /// Submissions rejected at admission, by the text of the reason, most frequent first.
    package var refusals: [(reason: String, lastHour: Int, total: Int)] = []
    package var latencies: [Latency] = []
    package var routes: [RouteState] = []
    package var credentials: [Credential] = []
    package var upstreams: [Upstream] = []
    /// `nil` if the node belongs to no cluster.
    package var cluster: Cluster?
    /// `nil` if there is no canary.
    package var canary: Canary?
    /// `nil` if the node does not run tor.
    package var tor: Tor?
    /// The alarms, latest first.
    package var alarms: [Alarm] = []
}

extension NodeSnapshot {
    /// A snapshot without data.
    package init(now: Int64) { self.now = now }
}

extension NodeSnapshot.RouteState {
    /// The state of a route that has no traffic.
    package init(name: String) { self.name = name }
}
