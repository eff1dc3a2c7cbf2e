// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP
import Tables
import Time

/// The known circuits, each with its rate limit and its abuse account. The table is bounded: it forgets a circuit
/// without a connection once the circuit's allowances are full and it is not blocked, or earlier to make room.
struct Circuits {
    /// The state of one circuit.
    struct Circuit {
        var submissions = Allowance()
        /// The abuse account: a token bucket of the violations that the circuit may still commit.
        var abuseAccount = Allowance()
        /// The node refuses the circuit's submissions until this time.
        var blockedUntil = MonotonicTime(nanoseconds: 0)
        var connections: Int32 = 0
        /// The number of unproven device tokens in flight. Each may turn out to be bad.
        var unproven: Int32 = 0
        /// Whether the circuit has an entry in ``Circuits/idle``.
        var isInIdleList = false

        /// Whether forgetting the circuit gives it no advantage: a new circuit would be treated no better.
        func isForgettable(at now: MonotonicTime) -> Bool {
            unproven == 0 && blockedUntil <= now && abuseAccount.isFull(now: now) && submissions.isFull(now: now)
        }
    }

    private var circuits = FlatTable<Circuit>(empty: Circuit())
    /// Circuits that lost their last connection, each listed once, with the time of the entry. Some may have
    /// reconnected.
    private var idle = ChunkedQueue<Idle>()

    private struct Idle {
        let circuit: CircuitID
        let since: MonotonicTime
    }

    private static let retention = Duration.seconds(60)

    /// The maximum size in bytes for `capacity` circuits.
    static func maximumBytes(capacity: Int) -> Int {
        FlatTable<Circuit>.maximumBytes(entries: capacity) + capacity * MemoryLayout<Idle>.stride
    }

    /// Multiplies circuit ids into keys of the table. It is random, so that nobody who can choose circuit ids can
    /// choose keys.
    private let factor: UInt64 = {
        var random = SecureRandom.Generator()
        return random.next() | 1
    }()

    private func key(of circuit: CircuitID) -> UInt64 { circuit.rawValue &* factor }

    var count: Int { circuits.count }
    /// The number of entries in the list of circuits without a connection.
    var idleCount: Int { idle.count }

    subscript(circuit: CircuitID) -> Circuit? { circuits[key(of: circuit)] }

    /// Changes the state of a circuit; does nothing and returns `nil` if the circuit is unknown.
    @discardableResult
    mutating func update<Result>(_ circuit: CircuitID, _ change: (inout Circuit) -> Result) -> Result? {
        circuits.update(key(of: circuit), change)
    }

    /// Adds a connection of the circuit.
    /// - Returns: `false` if there is no room for another circuit.
    mutating func connected(_ circuit: CircuitID, capacity: Int, now: MonotonicTime) -> Bool {
        if self[circuit] == nil {
            while circuits.count >= capacity, let oldest = idle.popFirst() { forget(oldest.circuit) }
            guard circuits.count < capacity else { return false }
            circuits.set(key(of: circuit), to: Circuit())
        }
        update(circuit) { $0.connections += 1 }
        return true
    }

    /// Removes a connection of the circuit.
    mutating func disconnected(_ circuit: CircuitID, now: MonotonicTime) {
        let isNewlyIdle = update(circuit) { known in
            known.connections = max(0, known.connections - 1)
            guard known.connections == 0, !known.isInIdleList else { return false }
            known.isInIdleList = true
            return true
        }
        if isNewlyIdle == true { idle.append(Idle(circuit: circuit, since: now)) }
    }

    /// Forgets circuits that have had no connection for 60 s, except those to which this would give an advantage (see
    /// ``Circuit/isForgettable(at:)``). Checks each circuit no more than once per 60 s.
    mutating func purge(now: MonotonicTime) {
        while let oldest = idle.first, now - oldest.since >= Self.retention {
            _ = idle.popFirst()
            if let known = self[oldest.circuit], known.connections == 0, !known.isForgettable(at: now) {
                idle.append(Idle(circuit: oldest.circuit, since: now))
            } else {
                forget(oldest.circuit)
            }
        }
    }

    /// Forgets a circuit whose entry was removed from ``idle``, unless it has reconnected.
    private mutating func forget(_ circuit: CircuitID) {
        if self[circuit]?.connections == 0 {
            circuits.remove(key(of: circuit))
        } else {
            update(circuit) { $0.isInIdleList = false }
        }
    }
}
