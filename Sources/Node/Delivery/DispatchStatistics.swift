// SPDX-License-Identifier: Apache-2.0

import Providers
import TNP
import Time

/// The state of a ``Dispatch`` at one moment.
package struct DispatchStatistics: Sendable {
    /// The state of one lane, or of all Web Push lanes of an app together: the names of push servers would tell who is
    /// served.
    package struct Lane: Sendable {
        /// The route that the lane serves.
        package let route: Route
        /// The state of the lane's breaker; `closed` if one of several is.
        package let breaker: Breaker.State
        /// The time until an open breaker lets a probe through, 0 if it does now; `nil` if it is closed.
        package let nextProbe: Duration?
        /// Whether a surge of token refusals is active.
        package let hasTokenRefusalSurge: Bool
        /// Number of envelopes that the lane is delivering.
        package let inFlight: Int
        /// Number of envelopes in the lane's queue; part of ``inFlight``.
        package let waiting: Int
        /// Approximate wait of the oldest envelope in the queue.
        package let oldest: Duration

        /// This lane and another one of the same route together.
        func joined(_ other: Lane) -> Lane {
            Lane(
                route: route, breaker: other.breaker == .closed ? .closed : breaker,
                nextProbe: other.breaker == .closed ? nil : nextProbe,
                hasTokenRefusalSurge: hasTokenRefusalSurge || other.hasTokenRefusalSurge,
                inFlight: inFlight + other.inFlight, waiting: waiting + other.waiting,
                oldest: max(oldest, other.oldest))
        }
    }

    /// Number of envelopes in memory.
    package let inFlight: Int
    /// Number of envelopes on disk, and the size of the spool in bytes; `nil` without a spool.
    package let stored: (envelopes: Int, bytes: Int)?
    /// Why the spool is full; `nil` if it has room, or without a spool.
    package let shortage: SpoolShortage?
    /// The lanes, sorted by route.
    package let lanes: [Lane]
}

extension DeliveryCore {
    /// The current state.
    /// - Parameter stored: number of envelopes in the spool, and its size in bytes; `nil` without a spool.
    func statistics(stored: (envelopes: Int, bytes: Int)?, at now: MonotonicTime) -> DispatchStatistics {
        var states: [Route: DispatchStatistics.Lane] = [:]
        for number in lanes.numbers {
            guard let lane = lanes[number] else { continue }
            let state = DispatchStatistics.Lane(
                route: lanes.routes[number], breaker: lane.breaker.state,
                nextProbe: lane.breaker.state == .closed ? nil : max(.zero, lane.breaker.openUntil - now),
                hasTokenRefusalSurge: lane.surge.isActive,
                inFlight: lanes.inMemory[number], waiting: lane.queue.count, oldest: maximumWait(at: lane, now))
            states[state.route] = states[state.route]?.joined(state) ?? state
        }
        return DispatchStatistics(
            inFlight: inFlight, stored: stored, shortage: schedule.shortage,
            lanes: states.values.sorted { $0.route.description < $1.route.description })
    }

    /// What the tables hold, and the bounds from which their memory follows (Docs/admission.md, Memory).
    var tables: [(name: String, entries: Int, bound: Int)] {
        [
            ("envelopes in memory", inFlight, limits.totalInFlight),
            ("outcomes in the replay window", window.count, window.capacity),
            ("pairs in the replay window", window.pairCount, window.capacity),
        ] + devices.tables
    }
}
