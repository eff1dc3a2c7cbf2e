// SPDX-License-Identifier: Apache-2.0

import Providers

/// The bounds of a ``Dispatch``.
package struct DispatchLimits: Sendable, Equatable {
    /// Envelopes in memory without an outcome.
    package var totalInFlight: Int
    package var retry: RetryPolicy
    /// Seconds for which a final outcome is repeated to a resend (PROTOCOL §3).
    package var replaySeconds: Int
    /// Outcomes that are remembered for that; the same bounds what is known of device tokens and collapse ids.
    package var replayEntries: Int

    /// Envelopes that may wait in the spool: each is known by some hundred bytes of memory.
    package var stored: Int
    /// The most attempts that are under way at one provider at a time.
    package var concurrency: Int

    /// Outcomes that can be remembered: of all that may be under way or lie in the spool, one each, and of those that have
    /// come.
    var outcomes: Int { replayEntries + stored + totalInFlight }

    /// - Parameters: as the properties of the same names.
    package init(
        totalInFlight: Int = 10_000, retry: RetryPolicy = RetryPolicy(), replaySeconds: Int = 600,
        replayEntries: Int = 200_000, stored: Int = 200_000, concurrency: Int = 2000
    ) {
        self.totalInFlight = totalInFlight
        self.retry = retry
        self.replaySeconds = replaySeconds
        self.replayEntries = replayEntries
        self.stored = stored
        self.concurrency = concurrency
    }
}
