// SPDX-License-Identifier: Apache-2.0

/// Size and time limits of a connection. Sizes are in bytes.
package struct HTTPLimits: Sendable {
    /// The request target.
    package var target: Int
    /// The request head: request line, fields and empty line; trailers count too. Above 80 KiB, the parser's own limit
    /// applies.
    package var head: Int
    /// The number of header fields.
    package var fields: Int
    /// The request body, decoded.
    package var body: Int
    /// From the first byte of a request until it is complete.
    package var requestTimeout: Duration
    /// Between requests.
    package var idleTimeout: Duration
    /// How long output may remain unsent.
    package var readTimeout: Duration
    /// Until the first byte of the first request.
    package var firstByteTimeout: Duration

    /// The given limits; omitted ones have the node's defaults.
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
