// SPDX-License-Identifier: Apache-2.0

/// The wall clock as admission counts days: derived from the monotonic clock. Small corrections are followed at once, a step
/// only when the wall clock has kept it for hours. So a clock that jumps ahead and back again makes no binding and no dead
/// device token older, and leaves no record with a day in the future.
package struct GuardedClock: Sendable {
    /// Seconds by which the wall clock may be off and is followed at once.
    static let tolerance: Int64 = 300
    /// Seconds by which a step makes anything older, however far it goes.
    static let longestStep: Int64 = 7 * 86_400
    /// How long a step has to last.
    static let agreement = Duration.seconds(6 * 3600)

    /// Seconds from the monotonic clock to Unix time.
    private var offset: Int64
    /// Seconds by which the wall clock is taken to be ahead.
    private var ahead: Int64 = 0
    /// A step of the wall clock that has not lasted long enough.
    private var step: (offset: Int64, since: MonotonicTime)?

    /// - Parameter wall: Unix time in seconds.
    package init(wall: Int64, at now: MonotonicTime) { offset = wall - now.wholeSeconds }

    /// The wall clock is wrong by so many seconds, and nothing that it says later changes that.
    package mutating func setBack(by seconds: Int64) {
        ahead += seconds
        offset -= seconds
    }

    /// Compares it with the wall clock, Unix time in seconds. To be called often.
    package mutating func observe(wall: Int64, at now: MonotonicTime) {
        let measured = wall - ahead - now.wholeSeconds
        if abs(measured - offset) <= Self.tolerance {
            offset = measured
            step = nil
        } else if let step, abs(measured - step.offset) <= Self.tolerance {
            guard now - step.since >= Self.agreement else { return }
            // A clock that was behind when the node started has dated all that is known too early.
            let excess = max(0, measured - offset - Self.longestStep)
            ahead += excess
            offset = measured - excess
            self.step = nil
        } else {
            step = (measured, now)
        }
    }

    /// Both clocks at one moment.
    package func moment(at now: MonotonicTime) -> ClockReading {
        ClockReading(monotonic: now, unix: now.wholeSeconds + offset)
    }
}

extension MonotonicTime {
    fileprivate var wholeSeconds: Int64 { Int64(nanoseconds / 1_000_000_000) }
}
