// SPDX-License-Identifier: Apache-2.0

/// The origin of a submission as far as the node can tell: tor's circuit if tor passes it on, otherwise the connection.
/// Limits apply per origin. It is not an identity, because a sender can obtain a new one at any time.
public struct CircuitID: Hashable, Sendable, BitwiseCopyable {
    /// A number that is distinct for each origin, used as a key in tables and queues.
    public let rawValue: UInt64

    private init(rawValue: UInt64) { self.rawValue = rawValue }

    /// A fast hash for dictionaries. It need not resist chosen values, because no sender can choose these numbers: tor
    /// counts circuits, and the node its connections.
    public func _rawHashValue(seed: Int) -> Int {
        let product = rawValue.multipliedFullWidth(by: 0x9E37_79B9_7F4A_7C15)
        return Int(truncatingIfNeeded: product.high ^ product.low ^ UInt64(truncatingIfNeeded: seed))
    }

    private static let siteFlag: UInt64 = 1 << 61
    private static let connectionFlag: UInt64 = 1 << 62
    private static let phoneFlag: UInt64 = 1 << 63

    /// The origin of a stream on this circuit of tor (`HiddenServiceExportCircuitID haproxy`).
    public static func tor(_ id: UInt32) -> CircuitID { CircuitID(rawValue: UInt64(id)) }

    /// The origin of a connection whose circuit is unknown; `number` identifies the connection.
    public static func connection(_ number: UInt64) -> CircuitID {
        CircuitID(rawValue: connectionFlag | number & (siteFlag - 1))
    }

    /// The origin of all connections of a site (PROTOCOL §10); `number` identifies the site.
    public static func site(_ number: UInt32) -> CircuitID { CircuitID(rawValue: siteFlag | UInt64(number)) }

    /// The number of the site; `nil` for any other origin.
    public var site: UInt32? {
        rawValue & (Self.siteFlag | Self.connectionFlag | Self.phoneFlag) == Self.siteFlag
            ? UInt32(truncatingIfNeeded: rawValue) : nil
    }

    /// The origin of envelopes for one phone whose sender is no longer known, such as those read back from the spool.
    public static func storedEnvelopes(phone key: Int) -> CircuitID {
        CircuitID(rawValue: phoneFlag | UInt64(bitPattern: Int64(key)) >> 1)
    }
}
