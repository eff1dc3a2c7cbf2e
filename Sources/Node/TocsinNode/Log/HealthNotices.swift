// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Time

/// Decides when the node logs a change of its health: at most once a minute, for a state that comes and goes.
struct HealthNotices {
    private static let interval = Duration.seconds(60)
    private var last: (notice: String, time: MonotonicTime)?

    /// The health to log now; `nil` if the log has told it already, or another one a moment ago.
    mutating func due(for health: Health, at now: MonotonicTime) -> Health? {
        if let last, last.notice == health.notice || now - last.time < Self.interval { return nil }
        last = (health.notice, now)
        return health
    }
}
