// SPDX-License-Identifier: Apache-2.0

import CClock

/// A point in time on the monotonic clock, in nanoseconds since an arbitrary time before the process started.
package struct MonotonicTime: Comparable, Hashable, Sendable, BitwiseCopyable {
    /// Nanoseconds since the clock's epoch.
    package let nanoseconds: UInt64

    /// The time `nanoseconds` after the clock's epoch.
    package init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

    /// The current time (`CLOCK_MONOTONIC`).
    package static var now: MonotonicTime {
        MonotonicTime(nanoseconds: UInt64(bitPattern: cclock_monotonic()))
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
    /// The duration in whole nanoseconds; zero if negative, and at most 2³³ s (272 years), so that sums do not overflow.
    package var wholeNanoseconds: UInt64 {
        // Divides with one instruction of the processor: `components` divides numbers of 128 bits, which takes ten
        // times as long.
        let attoseconds = attoseconds
        guard attoseconds > 0 else { return 0 }
        let (high, low) = (UInt64(truncatingIfNeeded: attoseconds >> 64), UInt64(truncatingIfNeeded: attoseconds))
        let perNanosecond: UInt64 = 1_000_000_000
        let longest: UInt64 = (1 << 33) * 1_000_000_000
        return high < perNanosecond ? min(perNanosecond.dividingFullWidth((high, low)).quotient, longest) : longest
    }

    /// The duration in milliseconds, including fractions; zero if negative.
    package var milliseconds: Double { Double(wholeNanoseconds) / 1_000_000 }

    /// The duration in whole milliseconds; zero if negative.
    package var wholeMilliseconds: Int64 { Int64(wholeNanoseconds / 1_000_000) }

    /// The duration in whole seconds; zero if negative.
    package var wholeSeconds: Int64 { Int64(wholeNanoseconds / 1_000_000_000) }
}
