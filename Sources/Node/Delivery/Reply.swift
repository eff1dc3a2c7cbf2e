// SPDX-License-Identifier: Apache-2.0

import TNP

/// Where to report the outcomes of one submission: at most one QUEUED, then exactly one final outcome.
package struct Reply: Sendable, Hashable {
    /// Identifies the submission to the ``OutcomeReceiver``.
    package let number: UInt64
    /// Whether the sender accepts QUEUED before the final outcome, once the envelope is stored durably.
    package let acceptsQueued: Bool

    package init(number: UInt64, acceptsQueued: Bool) {
        self.number = number
        self.acceptsQueued = acceptsQueued
    }
}

/// Receives the outcomes of submissions, on the dispatch's loop.
package protocol OutcomeReceiver: AnyObject {
    /// Reports QUEUED or the final outcome of a submission, and whether the envelope has reached a push service.
    func finished(_ reply: Reply, _ outcome: Outcome, _ contact: ProviderContact)
    /// Reports that a submission, which has got QUEUED, waits in the spool: nothing can be delivered now.
    func parked(_ reply: Reply)
    /// Whether a sender still waits for the outcome of this submission.
    func isWanted(_ reply: Reply) -> Bool
}
