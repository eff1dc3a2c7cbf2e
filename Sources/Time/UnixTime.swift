// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The wall clock.
package enum UnixTime {
    /// Seconds since 1970-01-01 (`CLOCK_REALTIME`).
    package static var now: Int64 { Int64(time(nil)) }
}
