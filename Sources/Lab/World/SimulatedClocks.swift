// SPDX-License-Identifier: Apache-2.0

import CWorld
import Time

/// The clocks of a simulation. Once this object exists, the clocks of the whole process show its times; the process
/// must have one thread only.
package final class SimulatedClocks {
    /// The monotonic clock.
    package var monotonic: MonotonicTime { didSet { show() } }
    /// Unix time in milliseconds when the monotonic clock read 0.
    private let unixOffset: Int64
    /// By how many milliseconds the wall clock of the machine whose code runs is ahead.
    package var skew: Int64 = 0 { didSet { show() } }

    /// - Parameters:
    ///   - monotonic: the time at the start.
    ///   - unix: the same time as Unix time in seconds.
    package init(monotonic: MonotonicTime, unix: Int64) {
        self.monotonic = monotonic
        unixOffset = unix * 1000 - Int64(monotonic.nanoseconds / 1_000_000)
        show()
    }

    private func show() { cworld_set_clocks(Int64(monotonic.nanoseconds), unixMilliseconds) }

    /// The wall clock: Unix time in milliseconds.
    package var unixMilliseconds: Int64 { trueUnixMilliseconds + skew }

    /// The wall clock of a machine whose clock is right: Unix time in milliseconds.
    package var trueUnixMilliseconds: Int64 { unixOffset + Int64(monotonic.nanoseconds / 1_000_000) }
}
