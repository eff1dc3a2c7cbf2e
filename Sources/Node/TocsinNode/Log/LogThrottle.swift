// SPDX-License-Identifier: Apache-2.0

import Time

/// Limits log lines to one per kind and minute, so that an outage of a provider does not fill the disk.
struct LogThrottle {
    private static let interval = Duration.seconds(60)
    private static let maximumKinds = 1000
    private var last: [String: MonotonicTime] = [:]

    /// Whether a line of this kind may be written now.
    mutating func allows(_ kind: String, at now: MonotonicTime) -> Bool {
        if let time = last[kind], now - time < Self.interval { return false }
        if last.count >= Self.maximumKinds { last.removeAll() }
        last[kind] = now
        return true
    }
}
