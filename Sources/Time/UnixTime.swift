// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The time of day as the rest of the world counts it.
package enum UnixTime {
    /// Seconds since 1970 (`CLOCK_REALTIME`).
    package static var now: Int64 { Int64(time(nil)) }
}
