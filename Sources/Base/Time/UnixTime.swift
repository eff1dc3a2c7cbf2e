// SPDX-License-Identifier: Apache-2.0

import CClock

/// The wall clock.
package enum UnixTime {
    /// Seconds since 1970-01-01 (`CLOCK_REALTIME`).
    package static var now: Int64 { milliseconds / 1000 }

    /// Milliseconds since 1970-01-01.
    package static var milliseconds: Int64 { cclock_unix() }
}
