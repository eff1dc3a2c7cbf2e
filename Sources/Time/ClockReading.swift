// SPDX-License-Identifier: Apache-2.0

/// Both clocks at one moment.
package struct ClockReading: Sendable {
    package let monotonic: MonotonicTime
    /// Unix time in seconds.
    package let unix: Int64

    /// - Parameters: as the properties of the same names.
    package init(monotonic: MonotonicTime, unix: Int64) {
        self.monotonic = monotonic
        self.unix = unix
    }

    /// Days since 1970-01-01.
    package var day: UInt16 { UInt16(clamping: unix / 86_400) }
    /// Unix time in milliseconds.
    package var milliseconds: UInt64 { UInt64(max(0, unix)) * 1000 }
}
