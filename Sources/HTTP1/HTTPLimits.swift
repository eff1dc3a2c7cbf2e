// SPDX-License-Identifier: Apache-2.0

/// How much and how long a connection may take. Sizes are in bytes.
public struct HTTPLimits: Sendable {
    /// The target of a request line.
    public var target: Int
    /// All of the head: request line, fields, the empty line; trailers count, too. Above 80 KiB the parser's own limit
    /// holds.
    public var head: Int
    /// The number of fields.
    public var fields: Int
    /// The body, decoded.
    public var body: Int
    /// From the first byte of a request until it is whole.
    public var requestTimeout: Duration
    /// Between requests.
    public var idleTimeout: Duration
    /// For which an answer may lie unread.
    public var readTimeout: Duration
    /// Until the first byte of the first request.
    public var firstTimeout: Duration

    /// Limits; what is not named is as the node has it by default.
    public init(
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
