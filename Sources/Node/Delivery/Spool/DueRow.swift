// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// When to try a row of the spool again.
struct DueRow: Comparable {
    let time: MonotonicTime
    let row: Int64
    /// Whether an earlier process stored the row and this process has not read it yet.
    var isUnread = false

    static func < (one: Self, other: Self) -> Bool { (one.time, one.row) < (other.time, other.row) }
}
