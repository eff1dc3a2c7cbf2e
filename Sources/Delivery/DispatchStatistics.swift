// SPDX-License-Identifier: Apache-2.0

import Providers
import TNP

/// The state of a ``Dispatch`` at one moment.
package struct DispatchStatistics: Sendable {
    /// The state of one lane.
    package struct Lane: Sendable {
        /// The route that the lane serves.
        package let route: Route
        /// The state of the lane's breaker.
        package let breaker: Breaker.State
        /// Whether a surge of token refusals is active.
        package let hasTokenRefusalSurge: Bool
        /// Number of envelopes of this lane in memory.
        package let inFlight: Int
        /// Number of envelopes in the lane's queue; part of ``inFlight``.
        package let waiting: Int
        /// Approximate wait of the oldest envelope in the queue.
        package let oldest: Duration
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

extension Dispatch {
    /// The current state.
    package nonisolated var statistics: DispatchStatistics {
        assumeIsolated { dispatch in
            let lanes = dispatch.lanes.values.sorted { $0.route.description < $1.route.description }
            return DispatchStatistics(
                inFlight: dispatch.inFlight, stored: dispatch.spool.map { ($0.count, $0.bytes) },
                shortage: dispatch.shortage,
                lanes: lanes.map { lane in
                    DispatchStatistics.Lane(
                        route: lane.route, breaker: lane.breaker.state, hasTokenRefusalSurge: lane.surge.isActive,
                        inFlight: lane.inFlight, waiting: lane.queue.count, oldest: dispatch.longestWait(at: lane))
                })
        }
    }
}
