// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP

/// The results of honest senders in one phase.
struct HonestStatistics {
    var submitted = 0
    var delivered = 0
    /// Answers of RETRY by reason; the sender resubmitted after each.
    var retries: [Reason: Int] = [:]
    /// Final outcomes other than DELIVERED, by reason.
    var rejected: [Reason: Int] = [:]
    /// Submissions that failed without an outcome, by error; the sender resubmitted after each.
    var errors: [String: Int] = [:]
    /// Envelopes not delivered within the sender's patience.
    var timedOut = 0
    /// The time from the start of an envelope's first submission to DELIVERED.
    var latencies = Latencies()
    var slowest = Duration.zero

    mutating func delivered(after time: Duration) {
        delivered += 1
        latencies.record(time)
        slowest = max(slowest, time)
    }
}
