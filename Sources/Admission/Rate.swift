// SPDX-License-Identifier: Apache-2.0

import Time

/// How much of something is allowed: `burst` at once, then `perMinute`.
package struct Rate: Sendable, Equatable {
    package let burst: Int
    package let perMinute: Int
    /// Nanoseconds in which one more is allowed.
    let interval: UInt64
    /// Nanoseconds in which all that was used is allowed again.
    let whole: UInt64

    /// What `burst` and `perMinute` may be; so that no sum of nanoseconds overflows.
    package static let bursts = 1...10_000_000
    package static let ratesPerMinute = 1...1_000_000_000

    /// - Parameters: as the properties of the same names, brought into their ranges.
    package init(burst: Int, perMinute: Int) {
        self.burst = min(max(burst, Self.bursts.lowerBound), Self.bursts.upperBound)
        self.perMinute = min(max(perMinute, Self.ratesPerMinute.lowerBound), Self.ratesPerMinute.upperBound)
        // Rounded up: no rate lets more through than it says.
        interval = (60_000_000_000 + UInt64(self.perMinute) - 1) / UInt64(self.perMinute)
        whole = interval * UInt64(self.burst)
    }
}

/// What is left of a ``Rate``: a token bucket in one word (GCRA, ITU-T I.371 annex A). It keeps the moment at which it
/// is full again; a clock that goes back, or a rate that becomes smaller, makes it empty at worst.
package struct Allowance: Sendable, Equatable {
    /// Nanoseconds of the monotonic clock.
    var fullAt: UInt64

    /// One that is full.
    package init() { fullAt = 0 }

    init(fullAt: UInt64) { self.fullAt = fullAt }

    /// Nanoseconds of the rate that are used.
    @inline(__always)
    private func used(_ rate: Rate, _ now: MonotonicTime) -> UInt64 {
        fullAt > now.nanoseconds ? min(fullAt - now.nanoseconds, rate.whole) : 0
    }

    /// How many are left.
    package func left(_ rate: Rate, now: MonotonicTime) -> Int { Int((rate.whole - used(rate, now)) / rate.interval) }

    /// How long until one is left; zero: it is. What is emptier than empty, as the rate was another when it was used,
    /// becomes empty.
    @inline(__always)
    package mutating func wait(_ rate: Rate, now: MonotonicTime) -> Duration {
        if fullAt > now.nanoseconds, fullAt - now.nanoseconds > rate.whole { fullAt = now.nanoseconds &+ rate.whole }
        let needed = used(rate, now) + rate.interval
        return needed <= rate.whole ? .zero : .nanoseconds(Int64(needed - rate.whole))
    }

    /// Where it is emptier than empty, as the rate was another when it was used, it begins anew.
    mutating func forgive(beyond rate: Rate, now: MonotonicTime) {
        if fullAt > now.nanoseconds, fullAt - now.nanoseconds > rate.whole { fullAt = now.nanoseconds }
    }

    /// How long until it is full.
    package func fullIn(_ rate: Rate, now: MonotonicTime) -> Duration { .nanoseconds(Int64(used(rate, now))) }

    /// Takes one; where none is left it stays empty.
    @inline(__always)
    package mutating func take(_ rate: Rate, now: MonotonicTime) {
        fullAt = now.nanoseconds &+ min(used(rate, now) + rate.interval, rate.whole)
    }

    /// Gives one back.
    package mutating func giveBack(_ rate: Rate, now: MonotonicTime) {
        let used = used(rate, now)
        fullAt = now.nanoseconds &+ (used > rate.interval ? used - rate.interval : 0)
    }

    /// Whether it is as good as one that was never used.
    func isFull(now: MonotonicTime) -> Bool { fullAt <= now.nanoseconds }
}
