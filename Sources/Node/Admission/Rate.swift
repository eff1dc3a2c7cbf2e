// SPDX-License-Identifier: Apache-2.0

import Time

/// A rate limit: `burst` at once, then `perMinute`.
package struct Rate: Sendable, Equatable {
    /// The capacity of the token bucket.
    package let burst: Int
    /// The sustained rate per minute.
    package let perMinute: Int
    /// Nanoseconds in which the bucket gains one token.
    let interval: UInt64
    /// Nanoseconds until an empty bucket is full again.
    let refillTime: UInt64

    /// The range of `burst`. Together with ``perMinuteRange``, it keeps every sum of nanoseconds from overflowing.
    package static let burstRange = 1...10_000_000
    /// The range of `perMinute`.
    package static let perMinuteRange = 1...1_000_000_000

    /// - Parameters: as the properties of the same names, clamped to their ranges.
    package init(burst: Int, perMinute: Int) {
        self.burst = min(max(burst, Self.burstRange.lowerBound), Self.burstRange.upperBound)
        self.perMinute = min(max(perMinute, Self.perMinuteRange.lowerBound), Self.perMinuteRange.upperBound)
        // Rounded up, so that the rate never admits more than `perMinute`.
        interval = (60_000_000_000 + UInt64(self.perMinute) - 1) / UInt64(self.perMinute)
        refillTime = interval * UInt64(self.burst)
    }
}

/// A token bucket for a ``Rate`` (GCRA, ITU-T I.371 annex A), stored as one word: the time at which the bucket is full
/// again. If the clock goes back or the rate becomes smaller, the bucket is empty at worst.
package struct Allowance: Sendable, Equatable, BitwiseCopyable {
    /// The time at which the bucket is full again, in nanoseconds of the monotonic clock.
    var fullAt: UInt64

    /// A full bucket.
    package init() { fullAt = 0 }

    init(fullAt: UInt64) { self.fullAt = fullAt }

    /// The used part of the bucket, as the nanoseconds that the rate takes to refill it.
    @inline(__always)
    private func used(_ rate: Rate, _ now: MonotonicTime) -> UInt64 {
        fullAt > now.nanoseconds ? min(fullAt - now.nanoseconds, rate.refillTime) : 0
    }

    /// The number of tokens left in the bucket.
    package func remaining(_ rate: Rate, now: MonotonicTime) -> Int {
        Int((rate.refillTime - used(rate, now)) / rate.interval)
    }

    /// The time until the bucket contains at least one token; zero if it contains one. A bucket below empty, which was
    /// used under another rate, becomes empty.
    @inline(__always)
    package mutating func wait(_ rate: Rate, now: MonotonicTime) -> Duration {
        if fullAt > now.nanoseconds, fullAt - now.nanoseconds > rate.refillTime {
            fullAt = now.nanoseconds &+ rate.refillTime
        }
        let needed = used(rate, now) + rate.interval
        return needed <= rate.refillTime ? .zero : .nanoseconds(Int64(needed - rate.refillTime))
    }

    /// Refills a bucket below empty, which was used under another rate.
    mutating func resetIfOverdrawn(_ rate: Rate, now: MonotonicTime) {
        if fullAt > now.nanoseconds, fullAt - now.nanoseconds > rate.refillTime { fullAt = now.nanoseconds }
    }

    /// The time until the bucket is full.
    package func fullIn(_ rate: Rate, now: MonotonicTime) -> Duration { .nanoseconds(Int64(used(rate, now))) }

    /// Takes one token from the bucket. An empty bucket stays empty.
    @inline(__always)
    package mutating func take(_ rate: Rate, now: MonotonicTime) {
        fullAt = now.nanoseconds &+ min(used(rate, now) + rate.interval, rate.refillTime)
    }

    /// Gives one token back to the bucket.
    package mutating func refund(_ rate: Rate, now: MonotonicTime) {
        let used = used(rate, now)
        fullAt = now.nanoseconds &+ (used > rate.interval ? used - rate.interval : 0)
    }

    /// Whether the bucket is full, like a new one.
    func isFull(now: MonotonicTime) -> Bool { fullAt <= now.nanoseconds }
}
