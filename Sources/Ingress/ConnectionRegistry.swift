// SPDX-License-Identifier: Apache-2.0

import Admission
import DequeModule

/// Decides which connection is closed for a new one where there is no room: connections by number, in the order in which
/// they came. No I/O and no clock.
///
/// A connection is unidentified until its sender has said HELLO, or sent a whole HTTP request. It costs an attacker nothing,
/// so the oldest one is closed whenever a new connection needs its place, and all of them have at most half of the room.
package struct ConnectionRegistry {
    /// How many connections there may be.
    package struct Limits: Equatable {
        /// At all endpoints together.
        package var connections: Int
        /// Of those, unidentified ones.
        var halfOpen: Int
        /// Whether the HTTP endpoint is served, too.
        var servesHTTP: Bool

        /// - Parameters: as the properties of the same names.
        package init(connections: Int, halfOpen: Int, servesHTTP: Bool) {
            self.connections = connections
            self.halfOpen = halfOpen
            self.servesHTTP = servesHTTP
        }

        /// What one endpoint keeps for itself: the other can never take it.
        var reserve: Int { servesHTTP ? connections / 4 : 0 }
        /// The most connections of one endpoint.
        var perEndpoint: Int { connections - reserve }
        /// The most unidentified connections of one endpoint.
        var halfOpenPerEndpoint: Int { max(1, min(halfOpen, connections / (servesHTTP ? 4 : 2))) }
    }

    package typealias SenderProtocol = Admission.SenderProtocol

    /// What happens to a new connection.
    package enum Placement: Equatable {
        /// There is room.
        case accept
        /// There is room once this unidentified connection has been closed.
        case acceptInPlaceOf(UInt64)
        /// There is no room. This quiet connection is asked to leave, so that there is room for the next one.
        case reject(leaving: UInt64?)
    }

    /// What a connection is used for at this moment.
    package enum Use {
        /// A submission is under way, or it is new.
        case busy
        /// Quiet, but it has had a phone rung.
        case served
        /// Quiet, and it never had one rung.
        case unused
    }

    /// The connections of one endpoint.
    fileprivate struct Book {
        var present: Set<UInt64> = []
        var unidentified: Set<UInt64> = []
        /// Oldest first; some of them have been identified or are gone.
        var unidentifiedInOrder: Deque<UInt64> = []
        /// All, oldest first but for those that were spared; some are gone.
        var inOrder: Deque<UInt64> = []
    }

    /// How many of the oldest connections are examined for a quiet one.
    package static let examined = 32

    package var limits: Limits
    private var tnp = Book()
    private var http = Book()

    /// A registry without connections.
    package init(_ limits: Limits) { self.limits = limits }

    /// Connections at all endpoints that are not being closed.
    package var count: Int { tnp.present.count + http.present.count }

    /// Of those, the ones whose senders have said HELLO, or sent a whole request.
    package var identifiedCount: Int { count - tnp.unidentified.count - http.unidentified.count }

    /// Decides on a new connection; unless it is rejected, ``opened(_:at:)`` follows.
    /// - Parameter use: what a connection is used for.
    package mutating func place(at senderProtocol: SenderProtocol, use: (UInt64) -> Use) -> Placement {
        let isFull = count >= limits.connections || self[senderProtocol].present.count >= limits.perEndpoint
        if isFull || self[senderProtocol].unidentified.count >= limits.halfOpenPerEndpoint,
            let oldest = self[senderProtocol].removeOldestUnidentified()
        {
            return .acceptInPlaceOf(oldest)
        }
        if !isFull { return .accept }
        // Where the endpoint has less than its reserve, the other one has taken more than its share.
        let other: SenderProtocol = senderProtocol == .tnp ? .http : .tnp
        if self[senderProtocol].present.count < limits.reserve, let oldest = self[other].removeOldestUnidentified() {
            return .acceptInPlaceOf(oldest)
        }
        return .reject(leaving: self[senderProtocol].quietOne(use) ?? self[other].quietOne(use))
    }

    /// A connection has come, of which nothing is known yet.
    package mutating func opened(_ number: UInt64, at senderProtocol: SenderProtocol) {
        self[senderProtocol].append(number)
    }

    /// Its sender has said HELLO, or sent a whole request.
    package mutating func identified(_ number: UInt64) {
        tnp.unidentified.remove(number)
        http.unidentified.remove(number)
    }

    /// It is closed.
    package mutating func closed(_ number: UInt64) {
        tnp.remove(number)
        http.remove(number)
    }

    private subscript(senderProtocol: SenderProtocol) -> Book {
        get { senderProtocol == .tnp ? tnp : http }
        _modify {
            if senderProtocol == .tnp { yield &tnp } else { yield &http }
        }
    }
}

extension ConnectionRegistry.Book {
    fileprivate mutating func append(_ number: UInt64) {
        present.insert(number)
        unidentified.insert(number)
        unidentifiedInOrder.append(number)
        inOrder.append(number)
        // Compacts the queues, so that one silent connection does not retain closed ones behind it.
        if unidentifiedInOrder.count > 2 * unidentified.count + 64 {
            unidentifiedInOrder.removeAll { !unidentified.contains($0) }
        }
        if inOrder.count > 2 * present.count + 64 { inOrder.removeAll { !present.contains($0) } }
    }

    fileprivate mutating func remove(_ number: UInt64) {
        present.remove(number)
        unidentified.remove(number)
    }

    fileprivate mutating func removeOldestUnidentified() -> UInt64? {
        while let oldest = unidentifiedInOrder.popFirst() {
            guard unidentified.contains(oldest) else { continue }
            remove(oldest)
            return oldest
        }
        return nil
    }

    /// Of a few of the oldest, a quiet one, preferably one that has never had a phone rung. The others go to the end of
    /// the queue.
    fileprivate mutating func quietOne(_ use: (UInt64) -> ConnectionRegistry.Use) -> UInt64? {
        var spare: UInt64?
        for _ in 0..<min(ConnectionRegistry.examined, inOrder.count) {
            guard let oldest = inOrder.popFirst(), present.contains(oldest) else { continue }
            switch use(oldest) {
            case .unused:
                if let spare { inOrder.append(spare) }
                return oldest
            case .served where spare == nil: spare = oldest
            case .served, .busy: inOrder.append(oldest)
            }
        }
        return spare
    }
}
