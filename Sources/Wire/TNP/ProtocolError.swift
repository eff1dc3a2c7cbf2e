// SPDX-License-Identifier: Apache-2.0

/// A protocol violation that ends the connection, as GOAWAY reports it (PROTOCOL §6).
public struct ProtocolError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The code that GOAWAY carries.
    public let code: GoAway.Code
    /// Names the violation; contains nothing of what was received.
    public let text: String

    /// Creates a protocol error.
    /// - Parameters:
    ///   - code: the code that GOAWAY carries.
    ///   - text: names the violation; must contain nothing of what was received.
    public init(code: GoAway.Code, text: String) {
        self.code = code
        self.text = text
    }

    static func malformed(_ text: String) -> ProtocolError { ProtocolError(code: .protocolError, text: text) }

    public var description: String { text }
}
