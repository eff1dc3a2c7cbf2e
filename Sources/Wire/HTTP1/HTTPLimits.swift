// SPDX-License-Identifier: Apache-2.0

/// Size and time limits of a connection. Sizes are in bytes.
package struct HTTPLimits: Sendable {
    /// Maximum size of the request target.
    package var target = 8192
    /// Maximum size of the request head: request line, fields and empty line, plus any trailers.
    package var head = 16384
    /// Maximum number of header fields.
    package var fields = 100
    /// Maximum size of the decoded request body.
    package var body = 16384
    /// Maximum time from the first byte of a request until the request is complete.
    package var requestTimeout = Duration.seconds(20)
    /// Maximum time from a response until the first byte of the next request.
    package var idleTimeout = Duration.seconds(60)
    /// Maximum time that output may remain unsent.
    package var readTimeout = Duration.seconds(60)
    /// Maximum time until the first byte of the first request.
    package var firstByteTimeout = Duration.seconds(30)

    /// The node's defaults.
    package static let standard = HTTPLimits()
}
