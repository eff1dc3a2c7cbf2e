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
        /// The name of the app.
        package var app = ""
        /// Routes with the same text share a credential.
        package var credential = ""
        /// Whether each push server that senders name has a lane of its own. A sender can open the circuit breaker of a
        /// server of their own, so a breaker says nothing about the route.
        package var hasLanePerServer = false
        /// Whether the route is a development environment, which many nodes never need.
        package var isOptional = false
        /// The route's last answers, deliveries and probe.
        package var record = RouteRecord()
        /// Seconds until an open circuit breaker lets a notification through; `nil` if it is closed.
        package var nextProbe: Int64?
        /// The state of the circuit breaker: `closed`, `open` or `half-open`.
        package var breaker = "closed"
        /// Whether there is a surge of token refusals, which points to a wrong environment or topic.
        package var isSurge = false
        /// Envelopes in flight.
        package var inFlight = 0
        /// Envelopes in the fair queue, which are part of those in flight.
        package var waiting = 0
        /// The outcomes per hour of the last day, oldest first.
        package var day: [Bucket] = []
        /// The number of each answer since the start, most frequent first.
        package var answers: [(reason: String, count: Int)] = []
        /// Latency of answers in the last hour, in seconds; `nil` if there were none.
        package var p50: Double?
        package var p99: Double?
    }

    /// A credential.
    package struct Credential: Sendable, Equatable {
        package var app: String
        /// For instance `APNs key`.
        package var kind: String
        /// The file's name without its directory.
        package var file: String
        /// Unix time in seconds; `nil` if it does not expire.
        package var expires: Int64?

        package init(app: String, kind: String, file: String, expires: Int64?) {
            self.app = app
            self.kind = kind
            self.file = file
            self.expires = expires
        }
    }

    /// The latency of one stage of an envelope's path through the node in the last hour, in seconds; `nil` if no envelope passed
    /// the stage.
    package struct Latency: Sendable, Equatable {
        /// `ingress`, `admission`, `queue` or `provider`.
        package var stage: String
        package var p50: Double?
        package var p90: Double?
        package var p99: Double?

        package init(stage: String, p50: Double?, p90: Double?, p99: Double?) {
            self.stage = stage
            self.p50 = p50
            self.p90 = p90
            self.p99 = p99
        }
    }

    /// The state of the node's own tor.
    package struct Tor: Sendable, Equatable {
        /// The onion address; `nil` until tor has created it.
        package var address: String?
        /// The progress of the connection to the Tor network, in percent.
        package var bootstrap: Int
        /// Whether the descriptor of the onion service is published.
        package var isPublished: Bool
        /// The further onions.
        package var onions: [Onion]
        package var restarts: Int
        /// The last warning that tor logged.
        package var warning: String?

        package init(
            address: String?, bootstrap: Int, isPublished: Bool, onions: [Onion], restarts: Int, warning: String?
        ) {
            self.address = address
            self.bootstrap = bootstrap
            self.isPublished = isPublished
            self.onions = onions
            self.restarts = restarts
            self.warning = warning
        }
    }

    /// A further onion.
    package struct Onion: Sendable, Equatable {
        /// Its name in the configuration.
        package var name: String
        package var address: String
        /// Whether its descriptor is published.
        package var isPublished: Bool

        package init(name: String, address: String, isPublished: Bool) {
            self.name = name
            self.address = address
            self.isPublished = isPublished
        }
    }

    /// An upstream node of an app.
    package struct Upstream: Sendable, Equatable {
        package var app: String
        /// Its address.
        package var node: String
        /// The number of open connections.
        package var connections: Int
        /// Whether it can be reached; `nil` if nothing is known.
        package var isReachable: Bool?
        /// The effort that its last WELCOME requires, in expected hashes; 0 if none.
        package var effort: UInt32
        /// Why the last connection failed or ended.
        package var failure: String?

        package init(
            app: String, node: String, connections: Int, isReachable: Bool?, effort: UInt32, failure: String?
        ) {
            self.app = app
            self.node = node
            self.connections = connections
            self.isReachable = isReachable
            self.effort = effort
            self.failure = failure
        }
    }

    /// The canary.
    package struct Canary: Sendable, Equatable {
        /// Seconds between two notifications.
        package var interval: Int
        /// When the phone was last rung, Unix time in seconds; before the first success, the node's start.
        package var lastSuccess: Int64
        /// The last attempt; `nil` before the first one.
        package var last: Attempt?

        package init(interval: Int, lastSuccess: Int64, last: Attempt?) {
            self.interval = interval
            self.lastSuccess = lastSuccess
            self.last = last
        }
    }

    /// An attempt of the canary.
    package struct Attempt: Sendable, Equatable {
        package var isDelivered: Bool
        /// The outcome, or why there is none.
        package var text: String

        package init(isDelivered: Bool, text: String) {
            self.isDelivered = isDelivered
            self.text = text
        }
    }

    /// The cluster.
    package struct Cluster: Sendable, Equatable {
        /// Whether its engine can be used.
        package var isAvailable: Bool
        package var isSlow: Bool
        /// Why the engine cannot be used.
        package var problem: String?
        /// The seconds since ``isAvailable`` changed.
        package var seconds: Int64
        /// The round-trip time to the engine in seconds; `nil` if it is not known.
        package var roundTrip: Double?
        /// The engine's clock minus this node's, in seconds.
        package var clockOffset: Double?
        package var nodes: [ClusterNode]

        package init(
            isAvailable: Bool, isSlow: Bool, problem: String?, seconds: Int64, roundTrip: Double?, clockOffset: Double?,
            nodes: [ClusterNode]
        ) {
            self.isAvailable = isAvailable
            self.isSlow = isSlow
            self.problem = problem
            self.seconds = seconds
            self.roundTrip = roundTrip
            self.clockOffset = clockOffset
            self.nodes = nodes
        }
    }

    /// A node of the cluster.
    package struct ClusterNode: Sendable, Equatable {
        package var name: String
        /// The version that it runs.
        package var version: String
        package var isAlive: Bool
        /// The seconds since its last heartbeat.
        package var absence: Int64

        package init(name: String, version: String, isAlive: Bool, absence: Int64) {
            self.name = name
            self.version = version
            self.isAlive = isAlive
            self.absence = absence
        }
    }

    /// How much of something on the machine is used.
    package struct Gauge: Sendable, Equatable {
        /// For instance `memory`.
        package var name: String
        package var used: Int
        /// `nil` if there is no bound, or it is unknown.
        package var bound: Int?
        package var isBytes: Bool

        package init(_ name: String, _ used: Int, of bound: Int?, isBytes: Bool) {
            self.name = name
            self.used = used
            self.bound = bound
            self.isBytes = isBytes
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
        /// Whether it is advice about settings, and no incident.
        var isSetUp = false
    }

    /// Unix time in seconds.
    package let now: Int64
    package var version = ""
    /// Seconds since the start.
    package var uptime: Int64 = 0
    /// What the operator calls the node; `nil` if it has no name.
    package var name: String?
    /// The reasons why the node is not ready; empty if it is.
    package var notReady: [Concern] = []
    /// What the last reloads found in the files on disk.
    package var reload = ReloadState()
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
    /// When the node was started in the last day, Unix times in seconds.
    package var starts: [Int64] = []
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
    /// Memory, disk and descriptors.
    package var machine: [Gauge] = []
    /// The alarms, latest first.
    package var alarms: [Alarm] = []
}

extension NodeSnapshot {
    /// A snapshot without data.
    package init(now: Int64) { self.now = now }

    /// The reasons why these routes make a node not ready; empty if they do not.
    package static func reasonsNotReady(_ routes: [RouteState], at now: Int64) -> [Concern] {
        RouteConditions(routes, at: now).reasonsNotReady
    }
}

extension NodeSnapshot.RouteState {
    /// The state of a route that has no traffic.
    package init(name: String) { self.name = name }
}
