// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The wall clock.
package enum UnixTime {
    /// Seconds since 1970-01-01 (`CLOCK_REALTIME`).
    package static var now: Int64 {
        if let clocks = SimulatedClocks.inUse { return clocks.unixMilliseconds / 1000 }
        return Int64(time(nil))
    }

    /// Milliseconds since 1970-01-01.
    package static var milliseconds: Int64 {
        if let clocks = SimulatedClocks.inUse { return clocks.unixMilliseconds }
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }
}
