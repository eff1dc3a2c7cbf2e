// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP

/// What honest senders got in one part of a run.
struct HonestStatistics {
    var submitted = 0
    var delivered = 0
    /// RETRY, after which they came again when they were told to.
    var retries: [Reason: Int] = [:]
    /// Ends that are not DELIVERED.
    var refused: [Reason: Int] = [:]
    /// Connections that were refused or lost for good.
    var errors = 0
    /// Not delivered within the sender's patience.
    var givenUp = 0
    /// From the first SUBMIT to DELIVERED, in microseconds.
    var latencies = Latencies()
    var slowest = Duration.zero

    mutating func delivered(after time: Duration) {
        delivered += 1
        latencies.record(time)
        slowest = max(slowest, time)
    }
}
