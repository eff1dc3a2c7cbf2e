// SPDX-License-Identifier: Apache-2.0

import Providers

/// The bounds of a ``Dispatch``.
public struct DispatchLimits: Sendable, Equatable {
    /// Envelopes in memory without an outcome.
    public var totalInFlight: Int
    public var retry: RetryPolicy
    /// Seconds for which a final outcome is repeated to a resend (PROTOCOL §3).
    public var replaySeconds: Int
    /// Outcomes that are remembered for that; the same bounds what is known of device tokens and collapse ids.
    public var replayEntries: Int

    /// Envelopes that may wait in the spool: each is known by some hundred bytes of memory.
    public var stored: Int
    /// The most attempts that are under way at one provider at a time.
    public var concurrency: Int

    /// Outcomes that can be remembered: of all that may be under way or lie in the spool, one each, and of those that have
    /// come.
    var outcomes: Int { replayEntries + stored + totalInFlight }

    /// - Parameters: as the properties of the same names.
    public init(
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
