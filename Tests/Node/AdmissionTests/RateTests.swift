// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns
import TestSupport
import Testing

@testable import Admission
@testable import Time

@Suite(.tags(.computing)) struct RateTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000_000)
    private let nanosecond = Duration.nanoseconds(1)

    /// Takes one if one is available.
    private func pass(_ allowance: inout Allowance, _ rate: Rate, at now: MonotonicTime) -> Bool {
        guard allowance.wait(rate, now: now) == .zero else { return false }
        allowance.take(rate, now: now)
        return true
    }

    /// Takes until none is available, and returns the number taken.
    private func exhaust(_ allowance: inout Allowance, _ rate: Rate, at now: MonotonicTime) -> Int {
        var taken = 0
        while pass(&allowance, rate, at: now) { taken += 1 }
        return taken
    }

    private func before(_ time: MonotonicTime, by nanoseconds: UInt64 = 1) -> MonotonicTime {
        MonotonicTime(nanoseconds: time.nanoseconds - nanoseconds)
    }

    // MARK: Burst and rate

    @Test func `the burst is available immediately, and no more`() {
        for burst in [1, 2, 20, 300] {
            var allowance = Allowance()
            #expect(exhaust(&allowance, Rate(burst: burst, perMinute: 10), at: start) == burst)
        }
    }

    @Test func `after the burst, one is available per interval, and not a nanosecond earlier`() {
        let rate = Rate(burst: 5, perMinute: 10)
        var allowance = Allowance()
        _ = exhaust(&allowance, rate, at: start)
        for number in 1...20 {
            let next = start + .seconds(6) * number
            #expect(allowance.wait(rate, now: before(next)) == nanosecond)
            #expect(!pass(&allowance, rate, at: before(next)))
            #expect(pass(&allowance, rate, at: next))
            #expect(!pass(&allowance, rate, at: next))
        }
    }

    @Test func `the reported wait is exact at every rate`() {
        var generator = SplitMix64(seed: 1)
        for perMinute in [1, 7, 59, 60, 61, 999, 12_000, 1_000_003, 1_000_000_000] {
            let rate = Rate(burst: 3, perMinute: perMinute)
            var allowance = Allowance()
            var now = start
            for _ in 0..<100 {
                _ = exhaust(&allowance, rate, at: now)
                let wait = allowance.wait(rate, now: now)
                #expect(wait > .zero)
                #expect(allowance.wait(rate, now: before(now + wait)) == nanosecond)
                now = now + wait
                #expect(allowance.wait(rate, now: now) == .zero)
                now = now + .nanoseconds(generator.below(1000))
            }
        }
    }

    @Test func `the remaining count falls to zero and rises again with time`() {
        let rate = Rate(burst: 4, perMinute: 60)
        var allowance = Allowance()
        for left in [4, 3, 2, 1] {
            #expect(allowance.remaining(rate, now: start) == left)
            allowance.take(rate, now: start)
        }
        #expect(allowance.remaining(rate, now: start) == 0)
        for left in 1...4 {
            let gain = start + .seconds(left)
            #expect(allowance.remaining(rate, now: before(gain)) == left - 1)
            #expect(allowance.remaining(rate, now: gain) == left)
        }
        #expect(allowance.remaining(rate, now: start + .seconds(1_000_000)) == 4)
    }

    @Test func `an allowance is full after the reported time, and not a nanosecond earlier`() {
        let rate = Rate(burst: 4, perMinute: 60)
        var allowance = Allowance()
        #expect(allowance.fullIn(rate, now: start) == .zero)
        #expect(allowance.isFull(now: start))
        for number in 1...4 {
            allowance.take(rate, now: start)
            #expect(allowance.fullIn(rate, now: start) == .seconds(number))
        }
        let end = start + .seconds(4)
        #expect(allowance.fullIn(rate, now: before(end)) == nanosecond)
        #expect(!allowance.isFull(now: before(end)))
        #expect(allowance.fullIn(rate, now: end) == .zero)
        #expect(allowance.isFull(now: end))
        #expect(allowance == Allowance(fullAt: end.nanoseconds))
    }

    @Test func `unused time is not saved beyond the burst`() {
        let rate = Rate(burst: 3, perMinute: 60)
        var allowance = Allowance()
        _ = exhaust(&allowance, rate, at: start)
        #expect(exhaust(&allowance, rate, at: start + .seconds(86_400)) == 3)
    }

    @Test func `taking from an empty allowance leaves it empty`() {
        let rate = Rate(burst: 3, perMinute: 60)
        var allowance = Allowance()
        for _ in 0..<100 { allowance.take(rate, now: start) }
        #expect(allowance.remaining(rate, now: start) == 0)
        #expect(allowance.wait(rate, now: start) == .seconds(1))
        #expect(allowance.fullIn(rate, now: start) == .seconds(3))
    }

    // MARK: Refunds

    @Test func `a refund can be taken again`() {
        let rate = Rate(burst: 3, perMinute: 60)
        var allowance = Allowance()
        _ = exhaust(&allowance, rate, at: start)
        allowance.refund(rate, now: start)
        #expect(allowance.remaining(rate, now: start) == 1)
        #expect(exhaust(&allowance, rate, at: start) == 1)
    }

    @Test func `a refund never exceeds the burst`() {
        let rate = Rate(burst: 3, perMinute: 60)
        var allowance = Allowance()
        allowance.refund(rate, now: start)
        #expect(allowance.remaining(rate, now: start) == 3)
        allowance.take(rate, now: start)
        for _ in 0..<10 { allowance.refund(rate, now: start + .milliseconds(500)) }
        #expect(exhaust(&allowance, rate, at: start + .milliseconds(500)) == 3)
    }

    @Test func `a take followed by a refund changes nothing`() {
        let rate = Rate(burst: 7, perMinute: 13)
        var generator = SplitMix64(seed: 2)
        for _ in 0..<100 {
            var allowance = Allowance()
            let taken = generator.below(7)
            for _ in 0..<taken { allowance.take(rate, now: start) }
            let before = allowance
            allowance.take(rate, now: start)
            allowance.refund(rate, now: start)
            #expect(allowance.remaining(rate, now: start) == before.remaining(rate, now: start))
            #expect(allowance.fullIn(rate, now: start) == before.fullIn(rate, now: start))
        }
    }

    // MARK: Clocks

    @Test func `a clock that goes back leaves an allowance empty at worst, with a wait of one interval`() {
        let rate = Rate(burst: 5, perMinute: 60)
        var allowance = Allowance()
        _ = exhaust(&allowance, rate, at: start)
        for past in [before(start), before(start, by: 500_000_000_000), MonotonicTime(nanoseconds: 0)] {
            var back = allowance
            #expect(back.remaining(rate, now: past) == 0)
            #expect(back.wait(rate, now: past) == .seconds(1))
            #expect(back.fullIn(rate, now: past) == .seconds(5))
            #expect(exhaust(&back, rate, at: past + .seconds(2)) == 2)
            var taken = allowance
            taken.take(rate, now: past)
            #expect(taken.wait(rate, now: past) == .seconds(1))
            #expect(exhaust(&taken, rate, at: past + .seconds(2)) == 2)
        }
    }

    @Test func `nothing overflows at the end of the clock's range`() {
        let end = MonotonicTime(nanoseconds: .max)
        for rate in [Rate(burst: 1, perMinute: 1), Rate(burst: 10_000_000, perMinute: 1)] {
            for now in [end, before(end), before(end, by: 60_000_000_000)] {
                var allowance = Allowance()
                for _ in 0..<3 {
                    allowance.take(rate, now: now)
                    #expect((0...rate.burst).contains(allowance.remaining(rate, now: now)))
                    #expect(allowance.wait(rate, now: now) <= .seconds(60))
                }
                allowance.refund(rate, now: now)
                // The clock restarts at zero.
                #expect(allowance.wait(rate, now: MonotonicTime(nanoseconds: 0)) <= .seconds(60))
            }
        }
    }

    // MARK: Reload

    @Test func `a smaller burst leaves an allowance empty at worst`() {
        let (large, small) = (Rate(burst: 100, perMinute: 60), Rate(burst: 2, perMinute: 60))
        var allowance = Allowance()
        for _ in 0..<50 { allowance.take(large, now: start) }
        #expect(allowance.remaining(small, now: start) == 0)
        #expect(allowance.wait(small, now: start) == .seconds(1))
        #expect(allowance.fullIn(small, now: start) == .seconds(2))
        #expect(exhaust(&allowance, small, at: start + .seconds(2)) == 2)
    }

    @Test func `a larger burst is available at once, less what was used`() {
        let (small, large) = (Rate(burst: 2, perMinute: 60), Rate(burst: 100, perMinute: 60))
        var allowance = Allowance()
        #expect(exhaust(&allowance, small, at: start) == 2)
        #expect(allowance.remaining(large, now: start) == 98)
        #expect(exhaust(&allowance, large, at: start) == 98)
    }

    @Test func `a faster rate refills at its own pace`() {
        let (slow, fast) = (Rate(burst: 10, perMinute: 1), Rate(burst: 10, perMinute: 600))
        var allowance = Allowance()
        #expect(exhaust(&allowance, slow, at: start) == 10)
        #expect(allowance.remaining(fast, now: start) == 0)
        #expect(allowance.wait(fast, now: start) == .milliseconds(100))
        #expect(allowance.fullIn(fast, now: start) == .seconds(1))
    }

    @Test func `a slower rate keeps the wait within one interval`() {
        let (fast, slow) = (Rate(burst: 10, perMinute: 600), Rate(burst: 10, perMinute: 1))
        var allowance = Allowance()
        #expect(exhaust(&allowance, fast, at: start) == 10)
        #expect(allowance.wait(slow, now: start) <= .seconds(60))
        #expect(allowance.remaining(slow, now: start) >= 9)
    }

    // MARK: Ranges

    @Test func `values out of range are clamped`() {
        for (burst, perMinute) in [(Int.min, Int.min), (0, 0), (-1, -1)] {
            let rate = Rate(burst: burst, perMinute: perMinute)
            #expect(rate.burst == 1 && rate.perMinute == 1)
        }
        let rate = Rate(burst: .max, perMinute: .max)
        #expect(rate.burst == 10_000_000 && rate.perMinute == 1_000_000_000)
    }

    @Test func `the largest burst at the slowest rate is exact`() {
        let rate = Rate(burst: 10_000_000, perMinute: 1)
        var allowance = Allowance()
        for _ in 0..<1000 { allowance.take(rate, now: start) }
        #expect(allowance.remaining(rate, now: start) == 9_999_000)
        #expect(allowance.fullIn(rate, now: start) == .seconds(60_000))
        #expect(allowance.wait(rate, now: start) == .zero)
        var empty = Allowance(fullAt: .max)
        #expect(empty.remaining(rate, now: start) == 0)
        #expect(empty.wait(rate, now: start) == .seconds(60))
        empty.take(rate, now: start)
        #expect(empty.fullIn(rate, now: start) == .seconds(600_000_000))
    }

    @Test func `no rate allows more per minute than configured`() {
        var generator = SplitMix64(seed: 3)
        let chosen = [1, 7, 59, 61, 700_000_000, 999_999_999, 1_000_000_000]
        for perMinute in chosen + (0..<1000).map({ _ in 1 + generator.below(1_000_000_000) }) {
            let rate = Rate(burst: 1, perMinute: perMinute)
            #expect(rate.interval * UInt64(perMinute) >= 60_000_000_000, "\(perMinute) a minute")
            // And not much less.
            #expect((rate.interval - 1) * UInt64(perMinute) < 60_000_000_000, "\(perMinute) a minute")
        }
    }

    // MARK: Properties

    @Test(arguments: 1...20)
    func `in every window no more and no less passes than burst and rate allow`(
        seed: UInt64
    ) {
        var generator = SplitMix64(seed: seed)
        let rate = Rate(burst: 1 + generator.below(30), perMinute: 1 + generator.below(6000))
        var allowance = Allowance()
        var now = start
        var passed: [UInt64] = []
        // Some senders are always waiting, some send occasionally.
        let pause = 1 + generator.below(Int(rate.interval) * (1 + generator.below(5)))
        for _ in 0..<400 {
            now = now + .nanoseconds(generator.below(pause))
            let isAllowed = pass(&allowance, rate, at: now)
            if isAllowed { passed.append(now.nanoseconds) }
            // The same decision as a token bucket that is refilled continuously.
            #expect(isAllowed == (allowed(passed.dropLast(isAllowed ? 1 : 0), rate, now.nanoseconds) >= 1))
        }
        for first in passed.indices {
            for last in first..<passed.count {
                let most = UInt64(rate.burst) * rate.interval + (passed[last] - passed[first])
                #expect(UInt64(last - first + 1) * rate.interval <= most)
            }
        }
    }

    /// A second way to compute the remaining allowance after these passes: the minimum over all start times of what is
    /// allowed since then minus what has passed since then.
    private func allowed(_ passed: ArraySlice<UInt64>, _ rate: Rate, _ now: UInt64) -> UInt64 {
        var least = UInt64(rate.burst) * rate.interval
        var count: UInt64 = 0
        for time in passed.reversed() {
            count += 1
            let gained = UInt64(rate.burst) * rate.interval + (now - time)
            least = min(least, gained - min(gained, count * rate.interval))
        }
        return least / rate.interval
    }

    @Test(arguments: [(1, 1), (1, 60), (20, 10), (100, 60), (3000, 12_000), (7, 13)])
    func `a sender that always wants more gets exactly the burst and then the rate`(burst: Int, perMinute: Int) {
        let rate = Rate(burst: burst, perMinute: perMinute)
        var allowance = Allowance()
        var now = start
        var passed = 0
        while passed < burst + 50 {
            let wait = allowance.wait(rate, now: now)
            if wait == .zero {
                allowance.take(rate, now: now)
                passed += 1
            } else {
                now = now + wait
            }
        }
        #expect((now - start) == .nanoseconds(Int64(rate.interval) * 50))
    }
}
