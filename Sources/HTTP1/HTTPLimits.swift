// SPDX-License-Identifier: Apache-2.0

/// Size and time limits of a connection. Sizes are in bytes.
package struct HTTPLimits: Sendable {
    /// Maximum size of the request target.
    package var target: Int
    /// Maximum size of the request head: request line, fields and empty line, plus any trailers. Above 80 KiB, the
    /// parser's own limit applies.
    package var head: Int
    /// Maximum number of header fields.
    package var fields: Int
    /// Maximum size of the decoded request body.
    package var body: Int
    /// Maximum time from the first byte of a request until the request is complete.
    package var requestTimeout: Duration
    /// Maximum time between requests.
    package var idleTimeout: Duration
    /// Maximum time that output may remain unsent.
    package var readTimeout: Duration
    /// Maximum time until the first byte of the first request.
    package var firstByteTimeout: Duration

    /// Creates limits; omitted ones have the node's defaults.
    package init(
        target: Int = 8192, head: Int = 16384, fields: Int = 100, body: Int = 16384,
        requestTimeout: Duration = .seconds(20), idleTimeout: Duration = .seconds(60),
        readTimeout: Duration = .seconds(60), firstTimeout: Duration = .seconds(30)
    ) {
        self.target = target
        self.head = head
        self.fields = fields
        self.body = body
        self.requestTimeout = requestTimeout
        self.idleTimeout = idleTimeout
        self.readTimeout = readTimeout
        self.firstByteTimeout = firstTimeout
    }
}
