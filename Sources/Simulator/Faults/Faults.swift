// SPDX-License-Identifier: Apache-2.0

/// What one stand-in does wrong; by default nothing.
public struct Faults: Sendable, Equatable {
    /// An answer that is not what the validator would say, and that delivers nothing.
    public struct ErrorAnswer: Sendable, Equatable {
        /// Of a thousand requests, how many get it.
        public var perMille: Int
        /// HTTP status.
        public var status: Int
        /// The service's own word; nil: the one that it uses with this status. Letters, digits and `_`.
        public var reason: String?
        /// Seconds that `retry-after` names; nil: no such field.
        public var retryAfter: Int?

        /// - Parameters: as the properties of the same names.
        public init(perMille: Int, status: Int, reason: String? = nil, retryAfter: Int? = nil) {
            self.perMille = perMille
            self.status = status
            self.reason = reason
            self.retryAfter = retryAfter
        }
    }

    /// INTERNAL_ERROR, REFUSED_STREAM, CANCEL and ENHANCE_YOUR_CALM (RFC 9113 §7).
    public static let usualResetCodes: [UInt32] = [2, 7, 8, 11]

    /// GOAWAY is said at every so many requests of a connection, from 1; nil: never.
    public var goAwayEvery: Int?
    /// Whether GOAWAY's last stream lies a few below the newest; those above it are dropped unseen. Otherwise it is the
    /// newest, and all are answered.
    public var goAwayIsEarly = false
    /// Of a thousand requests, how many are reset. Half of them, chosen at random, have been processed before.
    public var resetPerMille = 0
    /// The codes that they are reset with, chosen at random. What is reset with REFUSED_STREAM is never processed.
    public var resetCodes = Faults.usualResetCodes
    /// Of a thousand requests, how many end the connection, without GOAWAY or TLS's close_notify. Half of them, chosen
    /// at random, have been processed before.
    public var closePerMille = 0
    /// SETTINGS_MAX_CONCURRENT_STREAMS; nil: what the stand-in says without faults.
    public var concurrentStreams: UInt32?
    /// Whether requests are processed and never answered; PINGs still are.
    public var stalls = false
    /// The same from this request of a connection on, counted from 0; nil: never. New connections are served.
    public var stallsAfter: Int?
    /// A connection falls silent, PINGs included, after so many requests; nil: never. New connections are served.
    public var silentAfter: Int?
    /// Whether bytes are taken and dropped, and nothing is said: on all connections that there are, and on new ones
    /// before TLS. A connection that was swallowed once stays so.
    public var swallows = false
    /// How long answers take.
    public var latency = Latency.none
    /// Errors instead of answers to notifications; their shares add up to a thousand at most.
    public var errors: [ErrorAnswer] = []
    /// Whether requests for access tokens are answered 503; Google only.
    public var tokenEndpointIsDown = false
    /// Seconds by which the field `date` is ahead of the stand-in's clock; negative: behind it.
    public var dateSkew: Int64 = 0

    /// No faults.
    public init() {}
}
