// SPDX-License-Identifier: Apache-2.0

import Glibc

/// A point in time on the monotonic clock, in nanoseconds since an arbitrary time before the process started.
package struct MonotonicTime: Comparable, Hashable, Sendable {
    /// Nanoseconds since the clock's epoch.
    package let nanoseconds: UInt64

    /// The time `nanoseconds` after the clock's epoch.
    package init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

    /// The current time (`CLOCK_MONOTONIC`).
    package static var now: MonotonicTime {
        if let clocks = SimulatedClocks.inUse { return clocks.monotonic }
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return MonotonicTime(nanoseconds: UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
    }

    /// Whether `one` is earlier than `other`.
    package static func < (one: Self, other: Self) -> Bool { one.nanoseconds < other.nanoseconds }

    /// The time `duration` later; a negative duration counts as zero.
    package static func + (time: Self, duration: Duration) -> Self {
        MonotonicTime(nanoseconds: time.nanoseconds &+ duration.wholeNanoseconds)
    }

    /// The time from `other` to `time`; zero if `time` is not later.
    package static func - (time: Self, other: Self) -> Duration {
        .nanoseconds(time > other ? Int64(time.nanoseconds - other.nanoseconds) : 0)
    }
}

extension Duration {
    /// The duration in whole nanoseconds; zero if negative.
    package var wholeNanoseconds: UInt64 {
        let (seconds, attoseconds) = components
        // Clamped to 2³³ s (272 years), so that it does not overflow.
        return seconds < 0
            ? 0 : UInt64(min(seconds, 1 << 33)) * 1_000_000_000 + UInt64(max(attoseconds, 0) / 1_000_000_000)
    }

    /// The duration in milliseconds, including fractions.
    package var milliseconds: Double { Double(wholeNanoseconds) / 1_000_000 }
}
