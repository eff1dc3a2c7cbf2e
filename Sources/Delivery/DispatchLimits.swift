// SPDX-License-Identifier: Apache-2.0

import Providers

/// The bounds of a ``Dispatch``.
package struct DispatchLimits: Sendable, Equatable {
    /// Maximum number of envelopes in memory without an outcome.
    package var totalInFlight: Int
    /// How often and for how long the node retries.
    package var retry: RetryPolicy
    /// Seconds for which a final outcome is repeated to a resend (PROTOCOL §3).
    package var replaySeconds: Int
    /// Number of past outcomes remembered for resends; also bounds the device tokens and the collapse ids that the node
    /// remembers.
    package var replayEntries: Int

    /// Maximum number of envelopes in the spool; each takes a few hundred bytes of memory.
    package var maxStored: Int
    /// Maximum number of attempts in flight at one provider.
    package var concurrency: Int

    /// Capacity of the replay window: one outcome for each envelope that may be in flight or in the spool, and
    /// ``replayEntries`` past outcomes.
    var outcomes: Int { replayEntries + maxStored + totalInFlight }

    /// - Parameters: as the properties of the same names.
    package init(
        totalInFlight: Int = 10_000, retry: RetryPolicy = RetryPolicy(), replaySeconds: Int = 600,
        replayEntries: Int = 200_000, stored: Int = 200_000, concurrency: Int = 2000
    ) {
        self.totalInFlight = totalInFlight
        self.retry = retry
        self.replaySeconds = replaySeconds
        self.replayEntries = replayEntries
        self.maxStored = stored
        self.concurrency = concurrency
    }
}
