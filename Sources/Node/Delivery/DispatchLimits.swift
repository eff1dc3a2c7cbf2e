// SPDX-License-Identifier: Apache-2.0

import Providers

/// The bounds of a ``Dispatch``.
package struct DispatchLimits: Sendable, Equatable {
    /// Maximum number of envelopes in memory without an outcome.
    package var totalInFlight = 4000
    /// How often and for how long the node retries.
    package var retry = RetryPolicy()
    /// Seconds for which a final outcome is repeated to a resend (PROTOCOL §3).
    package var replaySeconds = 600
    /// Number of past outcomes remembered for resends; also bounds the device tokens and the collapse ids that the node
    /// remembers.
    package var replayEntries = 200_000

    /// Maximum number of envelopes in the spool; each takes a few hundred bytes of memory.
    package var maximumStored = 200_000
    /// Maximum number of attempts in flight in one lane.
    package var concurrency = 2000

    /// Capacity of the replay window: one outcome for each envelope that may be in flight or in the spool, and
    /// ``replayEntries`` past outcomes.
    var outcomes: Int { replayEntries + maximumStored + totalInFlight }

    /// The default limits.
    package init() {}
}
