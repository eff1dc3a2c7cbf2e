// SPDX-License-Identifier: Apache-2.0

/// Whom a submission comes from, as far as the node can tell: tor's circuit where tor passes it on, else the connection.
/// It says who shares what with whom; it is no identity, since anybody gets a new one at will.
public struct CircuitID: Hashable, Sendable {
    /// For tables and queues.
    public let rawValue: UInt64

    private init(rawValue: UInt64) { self.rawValue = rawValue }

    private static let connections: UInt64 = 1 << 62
    private static let phones: UInt64 = 1 << 63

    /// tor's circuit (`HiddenServiceExportCircuitID haproxy`).
    public static func tor(_ id: UInt32) -> CircuitID { CircuitID(rawValue: UInt64(id)) }

    /// A connection of which no more is known; `number` is its own.
    public static func connection(_ number: UInt64) -> CircuitID {
        CircuitID(rawValue: connections | number & (connections - 1))
    }

    /// Envelopes for one phone of which nobody knows any more who sent them.
    public static func phone(_ key: Int) -> CircuitID {
        CircuitID(rawValue: phones | UInt64(bitPattern: Int64(key)) >> 1)
    }
}
