// SPDX-License-Identifier: Apache-2.0

import Admission
import DequeModule

/// Decides which connection is closed when there is no room for a new one. Performs no I/O and reads no clock.
///
/// A connection is unidentified until its sender has sent HELLO or a whole HTTP request. Unidentified connections cost an
/// attacker nothing. So together they take at most half of the room: beyond that, a new one evicts the oldest.
package struct ConnectionRegistry {
    /// The limits on the number of connections.
    package struct Limits: Equatable {
        /// Maximum connections at all endpoints together.
        package var connections: Int
        /// Maximum unidentified connections at one endpoint.
        var halfOpen: Int
        /// Whether an HTTP endpoint is enabled, with or without tor.
        var servesHTTP: Bool

        /// The connections reserved for each endpoint; the other one cannot use them.
        var reserve: Int { servesHTTP ? connections / 4 : 0 }
        /// Maximum connections at one endpoint.
        var perEndpoint: Int { connections - reserve }
        /// Effective maximum of unidentified connections at one endpoint.
        var halfOpenPerEndpoint: Int { max(1, min(halfOpen, connections / (servesHTTP ? 4 : 2))) }
    }

    /// The protocol of an endpoint.
    package typealias SenderProtocol = Admission.SenderProtocol

    /// What happens to a new connection.
    package enum Placement: Equatable {
        /// There is room.
        case accept
        /// There is room once this unidentified connection is evicted.
        case acceptEvicting(UInt64)
        /// There is room once this idle connection is evicted.
        case acceptEvictingIdle(UInt64)
        /// There is no room.
        case reject
    }

    /// How a connection is currently used.
    package enum Use {
        /// A submission awaits its first answer or has begun to arrive, or the connection is new or about to close.
        case busy
        /// Idle, after at least one submission was delivered, or stored for delivery.
        case idleAfterSuccess
        /// Idle, without such a success.
        case idle
    }

    /// A connection that may be evicted.
    fileprivate struct IdleConnection {
        let number: UInt64
        /// Whether at least one of its submissions was delivered, or stored for delivery.
        let hasSucceeded: Bool
    }

    /// The connections of one endpoint.
    fileprivate struct Book {
        var present: Set<UInt64> = []
        var unidentified: Set<UInt64> = []
        /// Oldest first; may contain connections that are identified or closed by now.
        var unidentifiedInOrder: Deque<UInt64> = []
        /// Oldest first, but those examined for idleness are at the end. May contain closed connections.
        var identifiedInOrder: Deque<UInt64> = []
    }

    /// How many identified connections of an endpoint are examined for idleness when a new connection finds the node
    /// full.
    package static let examinedForEviction = 32

    /// The limits; a reload may change them.
    package var limits: Limits
    private var tnp = Book()
    private var http = Book()

    /// Creates an empty registry.
    package init(_ limits: Limits) { self.limits = limits }

    /// The number of connections at all endpoints, without evicted and closed ones.
    package var count: Int { tnp.present.count + http.present.count }

    /// The number of identified connections.
    package var identifiedCount: Int { count - tnp.unidentified.count - http.unidentified.count }

    /// Decides what happens to a new connection; unless it is rejected, the caller calls ``opened(_:at:)``.
    ///
    /// A full node first evicts an idle connection without a success: an unidentified one may belong to an honest
    /// sender, whose HELLO is on its way.
    /// - Parameters:
    ///   - senderProtocol: the protocol of its endpoint.
    ///   - use: how an existing connection is currently used.
    package mutating func place(at senderProtocol: SenderProtocol, use: (UInt64) -> Use) -> Placement {
        if self[senderProtocol].unidentified.count >= limits.halfOpenPerEndpoint,
            let oldest = self[senderProtocol].removeOldestUnidentified()
        {
            return .acceptEvicting(oldest)
        }
        guard count >= limits.connections || self[senderProtocol].present.count >= limits.perEndpoint else {
            return .accept
        }
        let idle = idleConnection(makingRoomAt: senderProtocol, use)
        if let idle, !idle.hasSucceeded { return evict(idle) }
        if let oldest = self[senderProtocol].removeOldestUnidentified() { return .acceptEvicting(oldest) }
        // This endpoint has less than its reserve, so the other one exceeds its share.
        if self[senderProtocol].present.count < limits.reserve,
            let oldest = self[senderProtocol.other].removeOldestUnidentified()
        {
            return .acceptEvicting(oldest)
        }
        return idle.map { evict($0) } ?? .reject
    }

    private mutating func evict(_ idle: IdleConnection) -> Placement {
        closed(idle.number)
        return .acceptEvictingIdle(idle.number)
    }

    /// Finds an idle connection whose eviction makes room at an endpoint.
    private mutating func idleConnection(
        makingRoomAt senderProtocol: SenderProtocol, _ use: (UInt64) -> Use
    ) -> IdleConnection? {
        let own = self[senderProtocol].idleConnection(use)
        if let own, !own.hasSucceeded { return own }
        guard self[senderProtocol].present.count < limits.perEndpoint else { return own }
        let others = self[senderProtocol.other].idleConnection(use)
        return others?.hasSucceeded == false ? others : own ?? others
    }

    /// Adds a new connection, as an unidentified one.
    package mutating func opened(_ number: UInt64, at senderProtocol: SenderProtocol) {
        self[senderProtocol].append(number)
    }

    /// Marks a connection as identified: its sender sent HELLO or a whole HTTP request.
    package mutating func identified(_ number: UInt64) {
        tnp.identify(number)
        http.identify(number)
    }

    /// Removes a closed connection.
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

extension ConnectionRegistry.SenderProtocol {
    fileprivate var other: Self { self == .tnp ? .http : .tnp }
}

extension ConnectionRegistry.Book {
    // The queues are compacted, so that one silent connection does not retain closed ones behind it.

    fileprivate mutating func append(_ number: UInt64) {
        present.insert(number)
        unidentified.insert(number)
        unidentifiedInOrder.append(number)
        if unidentifiedInOrder.count > 2 * unidentified.count + 64 {
            unidentifiedInOrder.removeAll { !unidentified.contains($0) }
        }
    }

    fileprivate mutating func identify(_ number: UInt64) {
        guard unidentified.remove(number) != nil else { return }
        identifiedInOrder.append(number)
        if identifiedInOrder.count > 2 * present.count + 64 { identifiedInOrder.removeAll { !present.contains($0) } }
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

    /// Finds an idle connection, preferably one without a success: that one leaves the queue, and the caller must evict
    /// it. Begins with the connections whose last examination is the longest ago; the others that it examines go to the
    /// end of the queue.
    fileprivate mutating func idleConnection(
        _ use: (UInt64) -> ConnectionRegistry.Use
    ) -> ConnectionRegistry.IdleConnection? {
        var afterSuccess: UInt64?
        var left = min(ConnectionRegistry.examinedForEviction, present.count - unidentified.count)
        while left > 0, let number = identifiedInOrder.popFirst() {
            guard present.contains(number) else { continue }
            left -= 1
            switch use(number) {
            case .idle: return .init(number: number, hasSucceeded: false)
            case .idleAfterSuccess: afterSuccess = afterSuccess ?? number
            case .busy: break
            }
            identifiedInOrder.append(number)
        }
        return afterSuccess.map { .init(number: $0, hasSucceeded: true) }
    }
}
