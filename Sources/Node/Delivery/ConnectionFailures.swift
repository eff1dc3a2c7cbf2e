// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// Counts the loss of a connection as one failure: requests lost within a second of the first belong to the same event.
struct ConnectionFailures {
    private static let eventLength = Duration.seconds(1)

    private var last: MonotonicTime?

    /// Records that a request was lost with its connection.
    /// - Returns: whether the request is the first one lost in its event.
    mutating func isNew(_ now: MonotonicTime) -> Bool {
        if let last, now - last < Self.eventLength { return false }
        last = now
        return true
    }
}
