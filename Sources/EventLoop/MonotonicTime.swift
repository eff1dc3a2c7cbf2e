// SPDX-License-Identifier: Apache-2.0

import Glibc

/// A point on the clock that never goes back, in nanoseconds since some moment before the process started.
public struct MonotonicTime: Comparable, Hashable, Sendable {
    /// Nanoseconds since the clock's own beginning.
    public let nanoseconds: UInt64

    /// The time `nanoseconds` after the clock's beginning: tests make their own time with this.
    public init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

    /// The present moment (`CLOCK_MONOTONIC`).
    public static var now: MonotonicTime {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return MonotonicTime(nanoseconds: UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
    }

    public static func < (one: Self, other: Self) -> Bool { one.nanoseconds < other.nanoseconds }

    /// The time `duration` (not negative) later.
    public static func + (time: Self, duration: Duration) -> Self {
        MonotonicTime(nanoseconds: time.nanoseconds &+ duration.wholeNanoseconds)
    }

    /// How much later this is than `other`; zero where it is not.
    public static func - (time: Self, other: Self) -> Duration {
        .nanoseconds(time > other ? Int64(time.nanoseconds - other.nanoseconds) : 0)
    }
}

extension Duration {
    /// The duration in whole nanoseconds; zero where it is negative.
    var wholeNanoseconds: UInt64 {
        let (seconds, attoseconds) = components
        // Centuries are for ever, and do not overflow.
        return seconds < 0
            ? 0 : UInt64(min(seconds, 1 << 33)) * 1_000_000_000 + UInt64(max(attoseconds, 0) / 1_000_000_000)
    }

    /// The same as C has it.
    var timeval: timeval {
        let nanoseconds = wholeNanoseconds
        return Glibc.timeval(
            tv_sec: Int(nanoseconds / 1_000_000_000), tv_usec: Int((nanoseconds % 1_000_000_000 + 999) / 1000))
    }

    /// The duration in milliseconds, with fractions.
    public var milliseconds: Double { Double(wholeNanoseconds) / 1_000_000 }
}
