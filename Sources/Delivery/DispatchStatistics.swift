// SPDX-License-Identifier: Apache-2.0

import Providers
import TNP

/// How a ``Dispatch`` stands at one moment.
package struct DispatchStatistics: Sendable {
    /// One provider in one environment under one credential.
    package struct Lane: Sendable {
        package let route: Route
        package let breaker: Breaker.State
        /// Whether so many device tokens are refused that the environment or the topic must be wrong.
        package let isSurge: Bool
        /// Envelopes in memory that are for it.
        package let inFlight: Int
        /// Of them, those that wait for their turn.
        package let waiting: Int
        /// How long the one that waits longest has waited, about.
        package let oldest: Duration
    }

    /// Envelopes in memory.
    package let inFlight: Int
    /// Envelopes on disk, and what they take there in bytes; nil: there is no spool.
    package let stored: (envelopes: Int, bytes: Int)?
    /// Why the spool takes no more envelopes; nil: it does, or there is none.
    package let shortage: SpoolShortage?
    /// By the names of their routes.
    package let lanes: [Lane]
}

extension Dispatch {
    /// How it stands now.
    package nonisolated var figures: DispatchStatistics {
        assumeIsolated { dispatch in
            let lanes = dispatch.lanes.values.sorted { $0.route.description < $1.route.description }
            return DispatchStatistics(
                inFlight: dispatch.inFlight, stored: dispatch.spool.map { ($0.count, $0.bytes) },
                shortage: dispatch.shortage,
                lanes: lanes.map { lane in
                    DispatchStatistics.Lane(
                        route: lane.route, breaker: lane.breaker.state, isSurge: lane.wave.isActive,
                        inFlight: lane.inFlight, waiting: lane.queue.count, oldest: dispatch.longestWait(at: lane))
                })
        }
    }
}
