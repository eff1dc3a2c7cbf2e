// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// What a service tells its manager, as sd_notify(3) writes it.
package enum ServiceNotice: Equatable, Sendable {
    /// It serves. Also the end of a reload.
    case ready
    /// It reads its configuration anew, since this moment of `CLOCK_MONOTONIC`; ``ready`` follows.
    case reloading(since: MonotonicTime)
    /// It is starting, and still will be for this time at most: so long the manager waits on.
    case starting(within: Duration)
    /// It takes no new work, and ends within this time: so long the manager waits before it kills.
    case stopping(within: Duration)
    /// One sentence for `systemctl status`. Everybody on the machine may read it.
    case status(String)
    /// It is alive; due again before the watchdog's time is over.
    case watchdog

    /// The longest status in bytes; what is longer is cut off.
    static let longestStatus = 256

    /// All of them as one datagram, so that the manager sees them at once.
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
        case .status(let text): ["STATUS=\(Self.oneLine(text))"]
        case .watchdog: ["WATCHDOG=1"]
        }
    }

    /// A line break in a status would begin an assignment of its own.
    private static func oneLine(_ text: String) -> String {
        var line = ""
        var length = 0
        for scalar in text.unicodeScalars {
            let isControl = scalar.properties.generalCategory == .control
            let scalar = isControl ? " " : scalar
            length += UTF8.width(scalar)
            guard length <= longestStatus else { break }
            line.unicodeScalars.append(scalar)
        }
        return line
    }
}
