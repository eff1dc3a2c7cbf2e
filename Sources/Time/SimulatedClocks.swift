// SPDX-License-Identifier: Apache-2.0

/// The clocks of a simulation. While they are in use, they take the place of the system's clocks in the whole process, which
/// must have one thread only.
package final class SimulatedClocks {
    /// The monotonic clock.
    package var monotonic: MonotonicTime
    /// Unix time in milliseconds when the monotonic clock read 0.
    private let unixOffset: Int64
    /// By how many milliseconds the wall clock of the machine whose code runs is ahead.
    package var skew: Int64 = 0

    /// - Parameters:
    ///   - monotonic: the time at the start.
    ///   - unix: the same time as Unix time in seconds.
    package init(monotonic: MonotonicTime, unix: Int64) {
        self.monotonic = monotonic
        unixOffset = unix * 1000 - Int64(monotonic.nanoseconds / 1_000_000)
    }

    /// The wall clock: Unix time in milliseconds.
    package var unixMilliseconds: Int64 { trueUnixMilliseconds + skew }

    /// The wall clock of a machine whose clock is right: Unix time in milliseconds.
    package var trueUnixMilliseconds: Int64 { unixOffset + Int64(monotonic.nanoseconds / 1_000_000) }

    /// The clocks in use; `nil` for the system's. Set it before anything reads a clock. Unsafe, because a simulation has
    /// one thread, and other processes never set it.
    nonisolated(unsafe) package static var inUse: SimulatedClocks?
}
