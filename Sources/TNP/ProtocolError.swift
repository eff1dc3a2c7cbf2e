// SPDX-License-Identifier: Apache-2.0

/// A fault that ends the connection: what GOAWAY says of it (PROTOCOL §6).
public struct ProtocolError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The code that GOAWAY carries.
    public let code: GoAway.Code
    /// Names the fault, and nothing of what was received.
    public let text: String

    /// - Parameters:
    ///   - code: what GOAWAY carries.
    ///   - text: names the fault; must hold nothing of what was received.
    public init(code: GoAway.Code, text: String) {
        self.code = code
        self.text = text
    }

    static func malformed(_ text: String) -> ProtocolError { ProtocolError(code: .protocolError, text: text) }

    public var description: String { text }
}
