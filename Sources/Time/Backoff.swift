// SPDX-License-Identifier: Apache-2.0

/// How long to wait before the next try: doubling from a base up to a cap, and of that a random part ("full jitter"),
/// so that many who lost the same peer do not come back at once.
///
/// With a base of 250 ms and a cap of 30 s the waits are, for random parts of 0.5:
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
    /// Failures since the beginning, or since it last worked.
    package private(set) var failures = 0

    /// - Parameters:
    ///   - base: the ceiling of the first wait, more than zero.
    ///   - cap: the ceiling of all waits, more than zero.
    package init(base: Duration, cap: Duration) {
        precondition(base > .zero && cap > .zero, "a backoff grows from something to something")
        self.base = base
        self.cap = cap
    }

    /// Counts one more failure.
    /// - Parameter random: from 0 up to 1.
    /// - Returns: the wait before the next try: that part of the present ceiling.
    package mutating func next(random: Double) -> Duration {
        let longest = ceiling(afterFailures: failures)
        failures += 1
        return longest * random
    }

    /// The longest wait that may follow after so many earlier failures: `min(base * 2^failures, cap)`.
    package func ceiling(afterFailures failures: Int) -> Duration {
        var ceiling = min(base, cap)
        var doublings = 0
        // Compared before it is doubled: the product of many failures would not fit.
        while doublings < failures, ceiling < cap {
            ceiling = ceiling < cap - ceiling ? ceiling * 2 : cap
            doublings += 1
        }
        return ceiling
    }

    /// It worked.
    package mutating func reset() { failures = 0 }
}
