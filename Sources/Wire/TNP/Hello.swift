// SPDX-License-Identifier: Apache-2.0

/// HELLO: the first frame of a sender (PROTOCOL §2).
public struct Hello: Equatable, Sendable {
    /// The lowest version that the sender speaks.
    public var lowestVersion: UInt8
    /// The highest version that the sender speaks.
    public var highestVersion: UInt8
    /// The name of the sender's software, at most 64 bytes of UTF-8. An empty name does not distinguish the sender from
    /// others.
    public var agent: String

    /// The largest length of ``agent``, in bytes.
    public static let maximumAgentLength = 64
    private static let signature = Array("TNP".utf8)

    /// Creates a HELLO.
    public init(lowestVersion: UInt8 = 1, highestVersion: UInt8 = 1, agent: String = "") {
        self.lowestVersion = lowestVersion
        self.highestVersion = highestVersion
        self.agent = agent
    }

    init(payload: Bytes) throws(ProtocolError) {
        var reader = ByteReader(payload, of: "HELLO")
        guard try reader.take(3).elementsEqual(Self.signature) else {
            throw .malformed("HELLO does not start with TNP: this port belongs to a push notification node")
        }
        lowestVersion = try reader.number()
        highestVersion = try reader.number()
        guard lowestVersion <= highestVersion else {
            throw .malformed("HELLO has a lowest version above its highest version")
        }
        let length: UInt8 = try reader.number()
        guard length <= Self.maximumAgentLength else {
            throw .malformed("HELLO has an agent of more than \(Self.maximumAgentLength) bytes")
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

/// The versions of the protocol that this implementation speaks.
public enum ProtocolVersion {
    /// The only version that this implementation speaks.
    public static let current: UInt8 = 1

    /// Returns the version that this implementation and the sender of `hello` both speak.
    /// - Throws: ``ProtocolError`` with code 2 if there is none.
    public static func agreed(with hello: Hello) throws(ProtocolError) -> UInt8 {
        guard hello.lowestVersion <= current, current <= hello.highestVersion else {
            throw ProtocolError(code: .version, text: "no common version: this node speaks version \(current)")
        }
        return current
    }
}
