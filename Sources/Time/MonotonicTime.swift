// SPDX-License-Identifier: Apache-2.0

import Glibc

/// A point on the clock that never goes back, in nanoseconds since some moment before the process started.
package struct MonotonicTime: Comparable, Hashable, Sendable {
    /// Nanoseconds since the clock's own beginning.
    package let nanoseconds: UInt64

    /// The time `nanoseconds` after the clock's beginning: tests make their own time with this.
    package init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

    /// The present moment (`CLOCK_MONOTONIC`).
    package static var now: MonotonicTime {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return MonotonicTime(nanoseconds: UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
    }

    package static func < (one: Self, other: Self) -> Bool { one.nanoseconds < other.nanoseconds }

    /// The time `duration` (not negative) later.
    package static func + (time: Self, duration: Duration) -> Self {
        MonotonicTime(nanoseconds: time.nanoseconds &+ duration.wholeNanoseconds)
    }

    /// How much later this is than `other`; zero where it is not.
    package static func - (time: Self, other: Self) -> Duration {
        .nanoseconds(time > other ? Int64(time.nanoseconds - other.nanoseconds) : 0)
    }
}

extension Duration {
    /// The duration in whole nanoseconds; zero where it is negative.
    package var wholeNanoseconds: UInt64 {
        let (seconds, attoseconds) = components
        // Centuries are for ever, and do not overflow.
        return seconds < 0
            ? 0 : UInt64(min(seconds, 1 << 33)) * 1_000_000_000 + UInt64(max(attoseconds, 0) / 1_000_000_000)
    }

    /// The duration in milliseconds, with fractions.
    package var milliseconds: Double { Double(wholeNanoseconds) / 1_000_000 }
}
