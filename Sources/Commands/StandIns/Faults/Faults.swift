// SPDX-License-Identifier: Apache-2.0

/// The faults of one simulated push service; none by default.
package struct Faults: Sendable, Equatable {
    /// An error sent instead of the validator's answer. Nothing is delivered.
    package struct ErrorAnswer: Sendable, Equatable {
        /// The share of requests that get this error, per mille.
        package var perMille: Int
        package var status: Int
        /// The reason: letters, digits and `_`; `nil` for the one that the service uses with this status.
        package var reason: String?
        /// The value of `retry-after` in seconds; `nil` for no such field.
        package var retryAfter: Int?

        package init(perMille: Int, status: Int, reason: String? = nil, retryAfter: Int? = nil) {
            self.perMille = perMille
            self.status = status
            self.reason = reason
            self.retryAfter = retryAfter
        }
    }

    /// INTERNAL_ERROR, REFUSED_STREAM, CANCEL and ENHANCE_YOUR_CALM (RFC 9113 §7).
    package static let usualResetCodes: [UInt32] = [2, 7, 8, 11]

    /// The server sends GOAWAY at the Nth request of each connection, N from 1, once; `nil` for never.
    package var goAwayEvery: Int?
    /// Whether GOAWAY's last stream is up to 3 streams below the newest; requests above it are dropped. Otherwise it is
    /// the newest stream, and all requests are answered.
    package var goAwayIsEarly = false
    /// The share of requests that are reset, per mille. A random half of them is processed first.
    package var resetPerMille = 0
    /// The codes used for resets, chosen at random. A request reset with REFUSED_STREAM is never processed.
    package var resetCodes = Faults.usualResetCodes
    /// The share of requests that close the connection without GOAWAY and TLS close_notify, per mille. A random half of
    /// them is processed first.
    package var closePerMille = 0
    /// SETTINGS_MAX_CONCURRENT_STREAMS; `nil` for the server's default.
    package var concurrentStreams: UInt32?
    /// Whether requests are processed but never answered; PINGs still are.
    package var stalls = false
    /// The number of requests after which a connection stalls as with ``stalls``; `nil` for never. New connections are
    /// served.
    package var stallsAfter: Int?
    /// The number of requests after which a connection gets no more responses, not even to PINGs; `nil` for never. New
    /// connections are served.
    package var silentAfter: Int?
    /// Whether all bytes are read and dropped without a response: on all open connections, and on new ones before TLS.
    /// These connections remain black holes after a change to false.
    package var isBlackHole = false
    /// The latency of answers.
    package var latency = Latency.none
    /// Errors instead of answers to notifications; their shares total at most 1000 per mille.
    package var errors: [ErrorAnswer] = []
    /// Whether requests for access tokens are answered with 503; FCM only.
    package var tokenEndpointIsDown = false
    /// Seconds by which the header field `date` is ahead of the service's clock; negative: behind.
    package var dateSkew: Int64 = 0

    /// Creates a value without faults.
    package init() {}
}
