// SPDX-License-Identifier: Apache-2.0

import DequeModule
import TNP
import Time

/// The known circuits, each with its rate limit and its abuse account. The table is bounded: it forgets a circuit
/// without a connection once the circuit's allowances are full and it is not blocked, or earlier to make room.
struct Circuits {
    /// The state of one circuit.
    struct Circuit {
        var submissions = Allowance()
        /// The abuse account: the number of violations that the circuit may still commit.
        var abuseAccount = Allowance()
        /// The node refuses the circuit's submissions until this time.
        var blockedUntil = MonotonicTime(nanoseconds: 0)
        var connections = 0
        /// The number of unproven device tokens in flight. Each may turn out to be bad.
        var unproven = 0
        /// Whether the circuit has an entry in ``Circuits/idle``.
        var isInIdleList = false

        /// Whether forgetting the circuit gives it no advantage: a new circuit would be treated no better.
        func isForgettable(at now: MonotonicTime) -> Bool {
            unproven == 0 && blockedUntil <= now && abuseAccount.isFull(now: now) && submissions.isFull(now: now)
        }
    }

    private var circuits: [CircuitID: Circuit] = [:]
    /// Circuits that lost their last connection, each listed once, with the time of the entry. Some may have
    /// reconnected.
    private var idle: Deque<(circuit: CircuitID, since: MonotonicTime)> = []
    private static let retention = Duration.seconds(60)

    /// The maximum size in bytes for `capacity` circuits. A dictionary has a power of two slots, uses up to 3/4 of
    /// them, and exists twice while it grows. An entry of ``idle`` takes two words; 32 bytes leave room for its growth.
    static func maximumBytes(capacity: Int) -> Int {
        var places = 1
        while places * 3 / 4 < capacity { places *= 2 }
        return places * (MemoryLayout<CircuitID>.stride + MemoryLayout<Circuit>.stride) * 3 / 2 + capacity * 32
    }

    var count: Int { circuits.count }

    subscript(circuit: CircuitID) -> Circuit? { circuits[circuit] }

    /// Changes the state of a circuit; does nothing and returns `nil` if the circuit is unknown.
    mutating func update<Result>(_ circuit: CircuitID, _ change: (inout Circuit) -> Result) -> Result? {
        guard let index = circuits.index(forKey: circuit) else { return nil }
        return change(&circuits.values[index])
    }

    /// Adds a connection of the circuit.
    /// - Returns: `false` if there is no room for another circuit.
    mutating func connected(_ circuit: CircuitID, capacity: Int, now: MonotonicTime) -> Bool {
        if circuits[circuit] == nil {
            while circuits.count >= capacity, let oldest = idle.popFirst() { forget(oldest.circuit) }
            guard circuits.count < capacity else { return false }
        }
        circuits[circuit, default: Circuit()].connections += 1
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
        if isNewlyIdle == true { idle.append((circuit, now)) }
    }

    /// Forgets circuits that have had no connection for 60 s, except those to which this would give an advantage (see
    /// ``Circuit/isForgettable(at:)``). Checks each circuit no more than once per 60 s.
    mutating func purge(now: MonotonicTime) {
        while let oldest = idle.first, now - oldest.since >= Self.retention {
            idle.removeFirst()
            if let known = circuits[oldest.circuit], known.connections == 0, !known.isForgettable(at: now) {
                idle.append((oldest.circuit, now))
            } else {
                forget(oldest.circuit)
            }
        }
    }

    /// Forgets a circuit whose entry was removed from ``idle``, unless it has reconnected.
    private mutating func forget(_ circuit: CircuitID) {
        if circuits[circuit]?.connections == 0 {
            circuits[circuit] = nil
        } else {
            update(circuit) { $0.isInIdleList = false }
        }
    }
}
