// SPDX-License-Identifier: Apache-2.0

/// The clock by which notifications expire: Unix time as of the start, continued by the monotonic clock. It follows small
/// corrections of the wall clock, but no step, so that a clock that was wrong at the start, or jumps, expires nothing.
package struct ExpiryClock: Sendable {
    /// The release of Debian 12, the oldest system that this program runs on (2023-06-10): a wall clock that shows an
    /// earlier time was never set.
    package static let earliestPlausible: Int64 = 1_686_355_200

    /// Unix time minus monotonic time, in seconds.
    private var offset: Int64
    /// Seconds by which the wall clock has stepped ahead since the start; negative if it has stepped back.
    package private(set) var steps: Int64 = 0

    /// Starts at the time of the wall clock.
    /// - Parameter wall: Unix time in seconds.
    package init(wall: Int64, at now: MonotonicTime) { offset = wall - now.wholeSeconds }

    /// Reads the time. Call this often: all changes of the wall clock between two calls count as one correction or one
    /// step.
    /// - Parameter wall: the wall clock, Unix time in seconds.
    package mutating func reading(wall: Int64, at now: MonotonicTime) -> ClockReading {
        let deviation = wall - steps - offset - now.wholeSeconds
        if abs(deviation) <= GuardedClock.tolerance { offset += deviation } else { steps += deviation }
        return ClockReading(monotonic: now, unix: now.wholeSeconds + offset)
    }
}
