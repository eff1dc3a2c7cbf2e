// SPDX-License-Identifier: Apache-2.0

import TNP
import Time

/// A notification from a service to its manager, see sd_notify(3).
package enum ServiceNotice: Equatable, Sendable {
    /// The service has started, or has finished a reload.
    case ready
    /// The service has been reloading its configuration since this time of `CLOCK_MONOTONIC`; ``ready`` follows.
    case reloading(since: MonotonicTime)
    /// The service is starting; extends the start timeout by this duration from now.
    case starting(within: Duration)
    /// The service accepts no new work and exits within this duration; the manager kills it after that.
    case stopping(within: Duration)
    /// One sentence for `systemctl status`. All users of the machine can read it.
    case status(String)
    /// The service is alive. The manager expects another such notice within the watchdog timeout.
    case watchdog

    /// The longest status in bytes; longer ones are truncated.
    static let maximumStatus = 256

    /// Encodes notices as one datagram, so that the manager handles them together.
    static func datagram(_ notices: [ServiceNotice]) -> [UInt8] {
        Array(notices.flatMap(\.assignments).joined(separator: "\n").utf8)
    }

    private var assignments: [String] {
        switch self {
        case .ready: ["READY=1"]
        case .reloading(let start): ["RELOADING=1", "MONOTONIC_USEC=\(start.nanoseconds / 1000)"]
        case .starting(let limit): ["EXTEND_TIMEOUT_USEC=\(UInt64(limit.milliseconds * 1000))"]
        case .stopping(let limit):
            ["STOPPING=1", "EXTEND_TIMEOUT_USEC=\(UInt64(limit.milliseconds * 1000))"]
        case .status(let text): ["STATUS=\(Substring(text.oneLine.utf8Prefix(Self.maximumStatus)))"]
        case .watchdog: ["WATCHDOG=1"]
        }
    }
}
