// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// Lets one line of a kind through a minute, so that no provider's bad hour fills the disk.
struct LogThrottle {
    private static let interval = Duration.seconds(60)
    private static let mostKinds = 1000
    private var last: [String: MonotonicTime] = [:]

    /// Whether a line of this kind may be written now.
    mutating func allows(_ kind: String, at now: MonotonicTime) -> Bool {
        if let time = last[kind], now - time < Self.interval { return false }
        if last.count >= Self.mostKinds { last.removeAll() }
        last[kind] = now
        return true
    }
}
