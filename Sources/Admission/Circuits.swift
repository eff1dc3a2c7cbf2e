// SPDX-License-Identifier: Apache-2.0

import DequeModule
import TNP
import Time

/// What is known of those who send, by circuit: how much each may submit, and its account of what it should not have
/// sent. Bounded; who has no connection and nothing against him is forgotten.
struct Circuits {
    struct Circuit {
        var submissions = Allowance()
        /// What is left of it is what it may still do wrong.
        var account = Allowance()
        /// Not listened to before then.
        var blockedUntil = MonotonicTime(nanoseconds: 0)
        var connections = 0
        /// Unproven device tokens under way: each may turn out to be a bad one.
        var unproven = 0
        /// Whether it is among those who are looked at once a minute.
        var isListed = false

        /// Whether it would be treated no better if it were new.
        func isAsNew(at now: MonotonicTime) -> Bool {
            unproven == 0 && blockedUntil <= now && account.isFull(now: now) && submissions.isFull(now: now)
        }
    }

    private var circuits: [CircuitID: Circuit] = [:]
    /// Those without a connection, each once, since when; some of them may have come back.
    private var idle: Deque<(circuit: CircuitID, since: MonotonicTime)> = []
    private static let kept = Duration.seconds(60)

    /// Bytes for so many: a dictionary's places are a power of two, at most 3/4 of them taken, and while it grows there
    /// are two; and two words for who is idle.
    static func mostBytes(capacity: Int) -> Int {
        var places = 1
        while places * 3 / 4 < capacity { places *= 2 }
        return places * (MemoryLayout<CircuitID>.stride + MemoryLayout<Circuit>.stride) * 3 / 2 + capacity * 32
    }

    var count: Int { circuits.count }

    subscript(circuit: CircuitID) -> Circuit? { circuits[circuit] }

    /// Changes what is known of a circuit, where it is known.
    mutating func update<Result>(_ circuit: CircuitID, _ change: (inout Circuit) -> Result) -> Result? {
        guard let index = circuits.index(forKey: circuit) else { return nil }
        return change(&circuits.values[index])
    }

    /// A connection of the circuit has come.
    /// - Returns: false where there is no room for another circuit.
    mutating func connected(_ circuit: CircuitID, capacity: Int, now: MonotonicTime) -> Bool {
        if circuits[circuit] == nil {
            while circuits.count >= capacity, let oldest = idle.popFirst() { forget(oldest.circuit) }
            guard circuits.count < capacity else { return false }
        }
        circuits[circuit, default: Circuit()].connections += 1
        return true
    }

    /// A connection of the circuit has gone.
    mutating func disconnected(_ circuit: CircuitID, now: MonotonicTime) {
        let isNews = update(circuit) { known in
            known.connections = max(0, known.connections - 1)
            guard known.connections == 0, !known.isListed else { return false }
            known.isListed = true
            return true
        }
        if isNews == true { idle.append((circuit, now)) }
    }

    /// Forgets those who have been away for a while and would be treated no better if they were new. Each is looked at
    /// once a minute at most.
    mutating func purge(now: MonotonicTime) {
        while let oldest = idle.first, now - oldest.since >= Self.kept {
            idle.removeFirst()
            if let known = circuits[oldest.circuit], known.connections == 0, !known.isAsNew(at: now) {
                idle.append((oldest.circuit, now))
            } else {
                forget(oldest.circuit)
            }
        }
    }

    /// One that is listed no longer goes, unless it has come back.
    private mutating func forget(_ circuit: CircuitID) {
        if circuits[circuit]?.connections == 0 {
            circuits[circuit] = nil
        } else {
            update(circuit) { $0.isListed = false }
        }
    }
}
