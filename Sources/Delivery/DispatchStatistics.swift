// SPDX-License-Identifier: Apache-2.0

import Providers
import TNP

/// How a ``Dispatch`` stands at one moment.
public struct DispatchStatistics: Sendable {
    /// One provider in one environment under one credential.
    public struct Lane: Sendable {
        public let route: Route
        public let breaker: Breaker.State
        /// Whether so many device tokens are refused that the environment or the topic must be wrong.
        public let isSurge: Bool
        /// Envelopes in memory that are for it.
        public let inFlight: Int
        /// Of them, those that wait for their turn.
        public let waiting: Int
        /// How long the one that waits longest has waited, about.
        public let oldest: Duration
    }

    /// Envelopes in memory.
    public let inFlight: Int
    /// Envelopes on disk, and what they take there in bytes; nil: there is no spool.
    public let stored: (envelopes: Int, bytes: Int)?
    /// Why the spool takes no more envelopes; nil: it does, or there is none.
    public let shortage: SpoolShortage?
    /// By the names of their routes.
    public let lanes: [Lane]
}

extension Dispatch {
    /// How it stands now.
    public nonisolated var figures: DispatchStatistics {
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
