// SPDX-License-Identifier: Apache-2.0

/// GOAWAY: the announcement that a connection ends, with its reason (PROTOCOL §6).
public struct GoAway: Equatable, Sendable {
    /// The reason why a connection ends. Codes that this version does not know keep their number.
    public struct Code: RawRepresentable, Hashable, Sendable {
        /// The code's number on the wire.
        public let rawValue: UInt16
        /// Creates the code with this number.
        public init(rawValue: UInt16) { self.rawValue = rawValue }

        /// 0: the node is shutting down.
        public static let shuttingDown = Code(rawValue: 0)
        /// 1: the peer has broken the protocol.
        public static let protocolError = Code(rawValue: 1)
        /// 2: sender and node have no version in common.
        public static let version = Code(rawValue: 2)
        /// 3: a frame exceeds the limit.
        public static let frameTooLarge = Code(rawValue: 3)
        /// 4: the connection has been idle for too long.
        public static let idle = Code(rawValue: 4)
        /// 5: the node has too many connections.
        public static let busy = Code(rawValue: 5)
        /// 6: the sender abuses the node.
        public static let abuse = Code(rawValue: 6)
        /// 7: HELLO did not arrive within the handshake time.
        public static let handshakeTimeout = Code(rawValue: 7)

        /// Whether the node answers the submissions that it has accepted before it closes the connection.
        public var answersInFlight: Bool { self == .shuttingDown || self == .idle }
    }

    /// The reason why the connection ends.
    public var code: Code
    /// Milliseconds that the sender waits before it reconnects; 0 if unspecified.
    public var retryAfter: UInt32
    /// One sentence for a person.
    public var text: String

    /// Creates a GOAWAY.
    public init(code: Code, retryAfter: UInt32 = 0, text: String = "") {
        self.code = code
        self.retryAfter = retryAfter
        self.text = text
    }

    /// Creates the GOAWAY that reports a protocol error.
    public init(_ error: ProtocolError) { self.init(code: error.code, text: error.text) }

    init(payload: Bytes) throws(ProtocolError) {
        var reader = ByteReader(payload, of: "GOAWAY")
        code = Code(rawValue: try reader.number())
        retryAfter = try reader.number()
        text = try reader.text(reader.rest.count)
    }

    /// The largest number of bytes of ``text`` on the wire; a longer text is truncated.
    public static let maximumTextLength = 512

    func encode(into output: inout [UInt8]) {
        output.appendFrame(.goAway) {
            $0.append(bigEndian: code.rawValue)
            $0.append(bigEndian: retryAfter)
            $0 += text.utf8Prefix(Self.maximumTextLength)
        }
    }
}
