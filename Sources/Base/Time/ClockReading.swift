// SPDX-License-Identifier: Apache-2.0

/// A reading of the monotonic clock and the wall clock at one moment.
package struct ClockReading: Sendable {
    /// The monotonic clock.
    package let monotonic: MonotonicTime
    /// The wall clock: Unix time in seconds.
    package let unix: Int64

    package init(monotonic: MonotonicTime, unix: Int64) {
        self.monotonic = monotonic
        self.unix = unix
    }

    /// The wall clock in days since 1970-01-01; 0 before, and at most 65,535.
    package var day: UInt16 { UInt16(clamping: unix / 86_400) }
    /// The wall clock as Unix time in milliseconds, to the second; 0 before 1970.
    package var milliseconds: UInt64 { UInt64(max(0, unix)) * 1000 }
}
