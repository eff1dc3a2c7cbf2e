// SPDX-License-Identifier: Apache-2.0

/// Exponential backoff with full jitter: the wait before the next attempt is a random part of a ceiling that doubles
/// from a base up to a cap. Many clients that lost the same peer thus do not return at the same moment.
///
/// With a base of 250 ms and a cap of 30 s, the waits for random parts of 0.5 are:
///
///     failures before   ceiling                         wait
///     0                 min(250 ms * 1, 30 s) = 250 ms  125 ms
///     1                 min(250 ms * 2, 30 s) = 500 ms  250 ms
///     6                 min(250 ms * 64, 30 s) = 16 s   8 s
///     7                 min(250 ms * 128, 30 s) = 30 s  15 s
///     1,000,000         30 s                            15 s
package struct Backoff: Sendable, Equatable {
    /// The ceiling of the first wait.
    package let base: Duration
    /// The ceiling of all waits.
    package let cap: Duration
    /// Failures since the start or the last ``reset()``.
    package private(set) var failures = 0

    /// Starts without failures.
    /// - Parameters:
    ///   - base: the ceiling of the first wait, greater than zero.
    ///   - cap: the ceiling of all waits, greater than zero.
    package init(base: Duration, cap: Duration) {
        precondition(base > .zero && cap > .zero, "base and cap must be greater than zero")
        self.base = base
        self.cap = cap
    }

    /// Counts one more failure.
    /// - Parameter random: a random number from 0 up to 1.
    /// - Returns: the wait before the next attempt: `random` times the current ceiling.
    package mutating func next(random: Double) -> Duration {
        let longest = ceiling(afterFailures: failures)
        failures += 1
        return longest * random
    }

    /// The ceiling of the wait after this many earlier failures: `min(base * 2^failures, cap)`.
    package func ceiling(afterFailures failures: Int) -> Duration {
        var ceiling = min(base, cap)
        var doublings = 0
        // Compares before it doubles: doubling many times would overflow.
        while doublings < failures, ceiling < cap {
            ceiling = ceiling < cap - ceiling ? ceiling * 2 : cap
            doublings += 1
        }
        return ceiling
    }

    /// Resets the failures after a success.
    package mutating func reset() { failures = 0 }
}
