// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns
import TestSupport
import Testing

@testable import Delivery
@testable import Time

@Suite(.tags(.computing)) struct TokenRefusalSurgeTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000_000)

    private func makeSurge(refused: Int, accepted: Int = 0) -> TokenRefusalSurge {
        var surge = TokenRefusalSurge(now: start)
        for _ in 0..<accepted { surge.accepted(start) }
        for _ in 0..<refused { surge.refused(start, isProven: true) }
        return surge
    }

    @Test func `fewer than the minimum number of refusals are no surge`() {
        for refused in 0..<TokenRefusalSurge.minimumRefusals { #expect(!makeSurge(refused: refused).isActive) }
    }

    @Test func `twenty refusals without acceptances are a surge`() {
        #expect(makeSurge(refused: 20).isActive)
    }

    @Test func `a surge requires more refusals than acceptances`() {
        #expect(!makeSurge(refused: 20, accepted: 20).isActive)
        #expect(makeSurge(refused: 21, accepted: 20).isActive)
        #expect(!makeSurge(refused: 1000, accepted: 1000).isActive)
        #expect(makeSurge(refused: 1001, accepted: 1000).isActive)
    }

    @Test func `refusals within two minutes count together`() {
        for (gap, isActive) in [(0, true), (59, true), (60, true), (119, true), (120, false), (600, false)] {
            var surge = makeSurge(refused: 10)
            for _ in 0..<10 { surge.refused(start + .seconds(gap), isProven: true) }
            #expect(surge.isActive == isActive, "\(gap) s")
        }
    }

    @Test func `slow refusals are no surge, however many there are`() {
        var surge = TokenRefusalSurge(now: start)
        for minute in 0..<500 {
            for _ in 0..<9 { surge.refused(start + .seconds(60 * minute), isProven: true) }
            #expect(!surge.isActive)
        }
    }

    @Test func `a surge lasts until refusals are a quarter of the answers`() {
        var surge = makeSurge(refused: 20)
        for _ in 0..<59 {
            surge.accepted(start)
            #expect(surge.isActive)
        }
        surge.accepted(start)
        #expect(!surge.isActive)
    }

    @Test func `after a surge another one again requires more refusals than acceptances`() {
        var surge = makeSurge(refused: 20)
        for _ in 0..<60 { surge.accepted(start) }
        for _ in 20..<60 {
            surge.refused(start, isProven: true)
            #expect(!surge.isActive)
        }
        surge.refused(start, isProven: true)
        #expect(surge.isActive)
    }

    @Test func `a surge continues from minute to minute while refusals prevail`() {
        var surge = makeSurge(refused: 20)
        for minute in 1..<60 {
            for _ in 0..<3 { surge.refused(start + .seconds(60 * minute), isProven: true) }
            surge.accepted(start + .seconds(60 * minute))
            #expect(surge.isActive)
        }
    }

    @Test(arguments: [60, 120, 300, 86_400])
    func `a surge continues after a quiet period`(_ seconds: Int) {
        var surge = makeSurge(refused: 100)
        for _ in 0..<80 {
            surge.refused(start + .seconds(seconds), isProven: true)
            #expect(surge.isActive)
        }
    }

    @Test(arguments: [60, 120, 300, 86_400])
    func `one acceptance does not end a surge, however late it comes`(_ seconds: Int) {
        var surge = makeSurge(refused: 100)
        surge.accepted(start + .seconds(seconds))
        #expect(surge.isActive)
    }

    @Test(arguments: [60, 120, 300, 86_400])
    func `many acceptances end a surge, however late they come`(_ seconds: Int) {
        var surge = makeSurge(refused: 100)
        for _ in 0..<301 { surge.accepted(start + .seconds(seconds)) }
        #expect(!surge.isActive)
    }

    @Test func `one refusal in ten is no surge, in any order`() {
        for seed in 1...20 as ClosedRange<UInt64> {
            var generator = SplitMix64(seed: seed)
            var surge = TokenRefusalSurge(now: start)
            var now = start
            var hasBegun = false
            for _ in 0..<1000 {
                now = now + .milliseconds(generator.below(3000))
                if generator.below(10) == 0 { surge.refused(now, isProven: true) } else { surge.accepted(now) }
                hasBegun = hasBegun || surge.isActive
            }
            #expect(!hasBegun, "seed \(seed)")
        }
    }

    @Test func `invented device tokens start no surge while others are accepted`() {
        var surge = TokenRefusalSurge(now: start)
        surge.accepted(start)
        for _ in 0..<10_000 { surge.refused(start + .seconds(1), isProven: false) }
        #expect(!surge.isActive)
    }

    @Test func `refusals of proven device tokens start a surge among any number of invented ones`() {
        var surge = TokenRefusalSurge(now: start)
        surge.accepted(start)
        for _ in 0..<1000 { surge.refused(start, isProven: false) }
        for _ in 0..<TokenRefusalSurge.minimumRefusals { surge.refused(start, isProven: true) }
        #expect(surge.isActive)
    }

    @Test func `if nothing is accepted, new device tokens start a surge, and the first acceptance ends it`() {
        var surge = TokenRefusalSurge(now: start)
        for _ in 0..<TokenRefusalSurge.minimumRefusals { surge.refused(start, isProven: false) }
        #expect(surge.isActive)
        surge.accepted(start + .seconds(1))
        #expect(!surge.isActive)
    }
}
