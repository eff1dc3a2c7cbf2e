// SPDX-License-Identifier: Apache-2.0

/// HELLO: the first frame of a sender (PROTOCOL §2).
public struct Hello: Equatable, Sendable {
    /// The lowest version that the sender speaks.
    public var lowestVersion: UInt8
    /// The highest version that the sender speaks.
    public var highestVersion: UInt8
    /// Who the sender says it is, at most 64 bytes; empty for those who mind their privacy.
    public var agent: String

    /// The longest agent in bytes.
    public static let longestAgent = 64
    private static let signature = Array("TNP".utf8)

    /// - Parameters:
    ///   - lowestVersion: the lowest version spoken.
    ///   - highestVersion: the highest version spoken.
    ///   - agent: at most 64 bytes of UTF-8.
    public init(lowestVersion: UInt8 = 1, highestVersion: UInt8 = 1, agent: String = "") {
        self.lowestVersion = lowestVersion
        self.highestVersion = highestVersion
        self.agent = agent
    }

    init(payload: Bytes) throws(ProtocolError) {
        var reader = ByteReader(payload, of: "HELLO")
        guard try reader.take(3).elementsEqual(Self.signature) else {
            throw .malformed("HELLO does not start with TNP: this is a notification node")
        }
        lowestVersion = try reader.number()
        highestVersion = try reader.number()
        guard lowestVersion <= highestVersion else { throw .malformed("HELLO has its versions the wrong way round") }
        let length: UInt8 = try reader.number()
        guard length <= Self.longestAgent else {
            throw .malformed("HELLO has an agent of more than \(Self.longestAgent) bytes")
        }
        agent = try reader.text(Int(length))
        try reader.finish()
    }

    func encode(into output: inout [UInt8]) {
        output.appendFrame(.hello) {
            $0 += Self.signature
            $0 += [lowestVersion, highestVersion, UInt8(agent.utf8.count)]
            $0 += agent.utf8
        }
    }
}

/// Versions of the protocol that this implementation speaks.
public enum ProtocolVersion {
    /// The one there is.
    public static let current: UInt8 = 1

    /// The version that both sides speak.
    /// - Throws: ``ProtocolError`` with code 2 where there is none.
    public static func agreed(with hello: Hello) throws(ProtocolError) -> UInt8 {
        guard hello.lowestVersion <= current, current <= hello.highestVersion else {
            throw ProtocolError(code: .version, text: "no common version: this node speaks version \(current)")
        }
        return current
    }
}
