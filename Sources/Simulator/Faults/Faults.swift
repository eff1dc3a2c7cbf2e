// SPDX-License-Identifier: Apache-2.0

/// What one stand-in does wrong; by default nothing.
package struct Faults: Sendable, Equatable {
    /// An answer that is not what the validator would say, and that delivers nothing.
    package struct ErrorAnswer: Sendable, Equatable {
        /// Of a thousand requests, how many get it.
        package var perMille: Int
        /// HTTP status.
        package var status: Int
        /// The service's own word; nil: the one that it uses with this status. Letters, digits and `_`.
        package var reason: String?
        /// Seconds that `retry-after` names; nil: no such field.
        package var retryAfter: Int?

        /// - Parameters: as the properties of the same names.
        package init(perMille: Int, status: Int, reason: String? = nil, retryAfter: Int? = nil) {
            self.perMille = perMille
            self.status = status
            self.reason = reason
            self.retryAfter = retryAfter
        }
    }

    /// INTERNAL_ERROR, REFUSED_STREAM, CANCEL and ENHANCE_YOUR_CALM (RFC 9113 §7).
    package static let usualResetCodes: [UInt32] = [2, 7, 8, 11]

    /// GOAWAY is said at every so many requests of a connection, from 1; nil: never.
    package var goAwayEvery: Int?
    /// Whether GOAWAY's last stream lies a few below the newest; those above it are dropped unseen. Otherwise it is the
    /// newest, and all are answered.
    package var goAwayIsEarly = false
    /// Of a thousand requests, how many are reset. Half of them, chosen at random, have been processed before.
    package var resetPerMille = 0
    /// The codes that they are reset with, chosen at random. What is reset with REFUSED_STREAM is never processed.
    package var resetCodes = Faults.usualResetCodes
    /// Of a thousand requests, how many end the connection, without GOAWAY or TLS's close_notify. Half of them, chosen
    /// at random, have been processed before.
    package var closePerMille = 0
    /// SETTINGS_MAX_CONCURRENT_STREAMS; nil: what the stand-in says without faults.
    package var concurrentStreams: UInt32?
    /// Whether requests are processed and never answered; PINGs still are.
    package var stalls = false
    /// The same from this request of a connection on, counted from 0; nil: never. New connections are served.
    package var stallsAfter: Int?
    /// A connection falls silent, PINGs included, after so many requests; nil: never. New connections are served.
    package var silentAfter: Int?
    /// Whether bytes are taken and dropped, and nothing is said: on all connections that there are, and on new ones
    /// before TLS. A connection that was swallowed once stays so.
    package var swallows = false
    /// How long answers take.
    package var latency = Latency.none
    /// Errors instead of answers to notifications; their shares add up to a thousand at most.
    package var errors: [ErrorAnswer] = []
    /// Whether requests for access tokens are answered 503; Google only.
    package var tokenEndpointIsDown = false
    /// Seconds by which the field `date` is ahead of the stand-in's clock; negative: behind it.
    package var dateSkew: Int64 = 0

    /// No faults.
    package init() {}
}
