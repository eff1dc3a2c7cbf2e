// SPDX-License-Identifier: Apache-2.0

/// The wall clock by which admission counts days, derived from the monotonic clock. It follows small corrections of the
/// system's wall clock at once, but a step only if the step lasts for six hours. If the system's clock jumps ahead and
/// back again, bindings and dead device tokens therefore do not age, and no record gets a day in the future.
package struct GuardedClock: Sendable {
    /// The largest correction of the wall clock, in seconds, that this clock follows at once.
    package static let tolerance: Int64 = 300
    /// The maximum number of seconds by which one step ages records.
    static let maximumStep: Int64 = 7 * 86_400
    /// How long a step of the wall clock must last before this clock follows it.
    static let stepConfirmation = Duration.seconds(6 * 3600)

    /// Unix time minus monotonic time, in seconds.
    private var offset: Int64
    /// Seconds by which the wall clock is assumed to be ahead.
    private var ahead: Int64 = 0
    /// A step of the wall clock that has not lasted for ``stepConfirmation`` yet.
    private var step: (offset: Int64, since: MonotonicTime)?

    /// Starts at the time of the wall clock.
    /// - Parameter wall: Unix time in seconds.
    package init(wall: Int64, at now: MonotonicTime) { offset = wall - now.wholeSeconds }

    /// Subtracts this many more seconds from every reading of the wall clock, which is assumed to be ahead.
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
            // If the wall clock was behind at the start, all records are dated too early. Its correction must not make
            // them expire.
            let excess = max(0, measured - offset - Self.maximumStep)
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
    /// Whole seconds, which the fair queue and the guarded clock count.
    package var wholeSeconds: Int64 { Int64(nanoseconds / 1_000_000_000) }
}
