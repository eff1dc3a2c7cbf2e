// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP

/// The results of honest senders in one phase.
struct HonestStatistics {
    var submitted = 0
    var delivered = 0
    /// Answers of RETRY, after which the sender resubmitted.
    var retries: [Reason: Int] = [:]
    /// Final outcomes other than DELIVERED.
    var rejected: [Reason: Int] = [:]
    /// Submissions that failed without an outcome, after which the sender resubmitted, by what happened.
    var errors: [String: Int] = [:]
    /// Envelopes not delivered within the sender's patience.
    var timedOut = 0
    /// Microseconds from the first SUBMIT to DELIVERED.
    var latencies = Latencies()
    var slowest = Duration.zero

    /// Counts a delivery.
    mutating func delivered(after time: Duration) {
        delivered += 1
        latencies.record(time)
        slowest = max(slowest, time)
    }
}
