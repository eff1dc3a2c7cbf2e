// SPDX-License-Identifier: Apache-2.0

/// The wall clock by which admission counts days, derived from the monotonic clock. It follows small corrections at
/// once, and a step only after the wall clock has kept it for six hours. A clock that jumps ahead and back again
/// therefore does not age bindings and dead device tokens, and leaves no record with a day in the future.
package struct GuardedClock: Sendable {
    /// The largest difference of the wall clock, in seconds, that this clock follows at once.
    static let tolerance: Int64 = 300
    /// The maximum by which one step ages records, in seconds.
    static let longestStep: Int64 = 7 * 86_400
    /// How long a step of the wall clock must last before this clock follows it.
    static let stepConfirmation = Duration.seconds(6 * 3600)

    /// Seconds from the monotonic clock to Unix time.
    private var offset: Int64
    /// Seconds by which the wall clock is assumed to be ahead.
    private var ahead: Int64 = 0
    /// A step of the wall clock that has not lasted long enough yet.
    private var step: (offset: Int64, since: MonotonicTime)?

    /// Starts with the wall clock.
    /// - Parameter wall: Unix time in seconds.
    package init(wall: Int64, at now: MonotonicTime) { offset = wall - now.wholeSeconds }

    /// Assumes from now on that the wall clock is this many more seconds ahead, whatever it shows later.
    package mutating func assumeAhead(by seconds: Int64) {
        ahead += seconds
        offset -= seconds
    }

    /// Follows the wall clock, given as Unix time in seconds. Call this often.
    package mutating func observe(wall: Int64, at now: MonotonicTime) {
        let measured = wall - ahead - now.wholeSeconds
        if abs(measured - offset) <= Self.tolerance {
            offset = measured
            step = nil
        } else if let step, abs(measured - step.offset) <= Self.tolerance {
            guard now - step.since >= Self.stepConfirmation else { return }
            // A clock that was behind at the start dated all records too early: correcting it must not expire them.
            let excess = max(0, measured - offset - Self.longestStep)
            ahead += excess
            offset = measured - excess
            self.step = nil
        } else {
            step = (measured, now)
        }
    }

    /// The monotonic time and the guarded wall clock.
    package func reading(at now: MonotonicTime) -> ClockReading {
        ClockReading(monotonic: now, unix: now.wholeSeconds + offset)
    }
}

extension MonotonicTime {
    fileprivate var wholeSeconds: Int64 { Int64(nanoseconds / 1_000_000_000) }
}
