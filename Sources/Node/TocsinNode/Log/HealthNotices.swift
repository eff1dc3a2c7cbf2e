// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Time

/// Decides when the node logs a change of its health: at most once a minute, because a state may come and go.
struct HealthNotices {
    private static let interval = Duration.seconds(60)
    private var last: (notice: String, time: MonotonicTime)?

    /// The health to log now; `nil` if it was the last one logged, or if one was logged less than a minute ago.
    mutating func due(for health: Health, at now: MonotonicTime) -> Health? {
        if let last, last.notice == health.notice || now - last.time < Self.interval { return nil }
        last = (health.notice, now)
        return health
    }
}
