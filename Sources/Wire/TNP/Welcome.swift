// SPDX-License-Identifier: Apache-2.0

/// WELCOME: the node's answer to HELLO (PROTOCOL §2).
public struct Welcome: Equatable, Sendable {
    /// The node's optional features, as bits.
    public struct Features: OptionSet, Sendable {
        /// The bits on the wire.
        public let rawValue: UInt16
        /// Creates the set with these bits.
        public init(rawValue: UInt16) { self.rawValue = rawValue }

        /// The node can store envelopes durably and answer QUEUED.
        public static let durableQueue = Features(rawValue: 1 << 0)
        /// The node requires proof of work at this moment.
        public static let proofOfWork = Features(rawValue: 1 << 1)
        /// The node honours sender keys.
        public static let senderKeys = Features(rawValue: 1 << 2)
        /// The node requires sender keys.
        public static let senderKeysRequired = Features(rawValue: 1 << 3)
        /// The node keeps handles.
        public static let handles = Features(rawValue: 1 << 4)
        /// The node takes site keys.
        public static let siteKeys = Features(rawValue: 1 << 5)
    }

    /// The version that the node has chosen.
    public var version: UInt8
    /// The node's optional features.
    public var features: Features
    /// The largest `length` of a frame that the node accepts from now on.
    public var maximumFrame: UInt32
    /// The largest number of requests in flight on this connection: submissions without a final RESULT, and requests
    /// about handles without a REGISTERED (PROTOCOL §11).
    public var maximumInFlight: UInt16
    /// The idle timeout in seconds: after this time without a frame from the sender and without submissions in flight,
    /// the node sends GOAWAY 4.
    public var idleTimeout: UInt32
    /// The node's Unix time in milliseconds, rounded down to a whole minute: precise enough for a person to notice a wrong
    /// clock, too coarse to identify a machine.
    public var serverTime: UInt64
    /// The proof of work that the node requires at this moment.
    public var puzzle: Puzzle
    /// The routes that the node serves, each "app/magic", e.g. "bisq/iOS". The node sends at most 255 routes of at most 255
    /// bytes each, and only as many as fit into ``maximumFrame``.
    public var routes: [String]

    /// Creates a WELCOME.
    public init(
        version: UInt8 = ProtocolVersion.current, features: Features = [], maximumFrame: UInt32,
        maximumInFlight: UInt16, idleTimeout: UInt32, serverTime: UInt64, puzzle: Puzzle, routes: [String]
    ) {
        self.version = version
        self.features = features
        self.maximumFrame = maximumFrame
        self.maximumInFlight = maximumInFlight
        self.idleTimeout = idleTimeout
        self.serverTime = serverTime
        self.puzzle = puzzle
        self.routes = routes
    }

    init(payload: Bytes) throws(ProtocolError) {
        var reader = ByteReader(payload, of: "WELCOME")
        version = try reader.number()
        features = Features(rawValue: try reader.number())
        maximumFrame = try reader.number()
        maximumInFlight = try reader.number()
        idleTimeout = try reader.number()
        serverTime = try reader.number()
        puzzle = try Puzzle(from: &reader)
        routes = []
        let count: UInt8 = try reader.number()
        for _ in 0..<count {
            let length: UInt8 = try reader.number()
            routes.append(try reader.text(Int(length)))
        }
        try reader.finish()
    }

    /// The routes to send: the first ones that fit into `max_frame` and into the one-byte count.
    private var sentRoutes: ArraySlice<String> {
        // type u8, version u8, features u16, max_frame u32, max_in_flight u16, idle_timeout u32, server_time u64,
        // puzzle 24, count u8
        var room = Int(maximumFrame) - 47
        let tooMany = routes.indices.first { index in
            room -= 1 + routes[index].utf8.count
            return room < 0 || index == Int(UInt8.max) || routes[index].utf8.count > Int(UInt8.max)
        }
        return routes[..<(tooMany ?? routes.endIndex)]
    }

    func encode(into output: inout [UInt8]) {
        let routes = sentRoutes
        output.appendFrame(.welcome) {
            $0.append(version)
            $0.append(bigEndian: features.rawValue)
            $0.append(bigEndian: maximumFrame)
            $0.append(bigEndian: maximumInFlight)
            $0.append(bigEndian: idleTimeout)
            $0.append(bigEndian: serverTime)
            puzzle.encodePayload(into: &$0)
            $0.append(UInt8(routes.count))
            for route in routes {
                $0.append(UInt8(route.utf8.count))
                $0 += route.utf8
            }
        }
    }
}
