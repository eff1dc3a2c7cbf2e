// SPDX-License-Identifier: Apache-2.0

/// How much and how long a connection may take. Sizes are in bytes.
package struct HTTPLimits: Sendable {
    /// The target of a request line.
    package var target: Int
    /// All of the head: request line, fields, the empty line; trailers count, too. Above 80 KiB the parser's own limit
    /// holds.
    package var head: Int
    /// The number of fields.
    package var fields: Int
    /// The body, decoded.
    package var body: Int
    /// From the first byte of a request until it is whole.
    package var requestTimeout: Duration
    /// Between requests.
    package var idleTimeout: Duration
    /// For which an answer may lie unread.
    package var readTimeout: Duration
    /// Until the first byte of the first request.
    package var firstTimeout: Duration

    /// Limits; what is not named is as the node has it by default.
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
        self.firstTimeout = firstTimeout
    }
}
