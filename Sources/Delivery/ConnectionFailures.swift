// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// Tells the failures of one connection from those of several: what is lost within a second was lost with one connection.
struct ConnectionFailures {
    private static let event = Duration.seconds(1)

    private var last: MonotonicTime?

    /// A request was lost with its connection.
    /// - Returns: whether it is the first one of this event.
    mutating func isNew(_ now: MonotonicTime) -> Bool {
        if let last, now - last < Self.event { return false }
        last = now
        return true
    }
}
