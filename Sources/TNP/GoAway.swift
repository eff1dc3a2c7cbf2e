// SPDX-License-Identifier: Apache-2.0

/// GOAWAY: the end of a connection, with its reason (PROTOCOL §6).
public struct GoAway: Equatable, Sendable {
    /// Why. Numbers that this version does not know are kept as they came.
    public struct Code: RawRepresentable, Hashable, Sendable {
        public let rawValue: UInt16
        public init(rawValue: UInt16) { self.rawValue = rawValue }

        public static let shuttingDown = Code(rawValue: 0)
        public static let protocolError = Code(rawValue: 1)
        public static let version = Code(rawValue: 2)
        public static let frameTooLarge = Code(rawValue: 3)
        public static let idle = Code(rawValue: 4)
        public static let busy = Code(rawValue: 5)
        public static let abuse = Code(rawValue: 6)
        public static let handshakeTimeout = Code(rawValue: 7)

        /// Whether what was taken is still answered before the connection closes.
        public var answersWhatWasTaken: Bool { self == .shuttingDown || self == .idle }
    }

    public var code: Code
    /// Milliseconds after which to come back; 0 where it says nothing.
    public var retryAfter: UInt32
    /// One sentence for a person.
    public var text: String

    /// - Parameters: as the properties of the same names.
    public init(code: Code, retryAfter: UInt32 = 0, text: String = "") {
        self.code = code
        self.retryAfter = retryAfter
        self.text = text
    }

    /// The farewell for a fault.
    public init(_ error: ProtocolError) { self.init(code: error.code, text: error.text) }

    init(payload: Bytes) throws(ProtocolError) {
        var reader = ByteReader(payload, of: "GOAWAY")
        code = Code(rawValue: try reader.number())
        retryAfter = try reader.number()
        text = try reader.text(reader.rest.count)
    }

    /// Bytes of ``text`` that are sent at most; a longer one is cut.
    public static let longestText = 512

    func encode(into output: inout [UInt8]) {
        output.appendFrame(.goAway) {
            $0.append(bigEndian: code.rawValue)
            $0.append(bigEndian: retryAfter)
            $0 += text.utf8Prefix(Self.longestText)
        }
    }
}
