// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Simulator
import Testing

@testable import Delivery
@testable import Time

@Suite struct TokenRefusalSurgeTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000_000)

    private func makeWave(refused: Int, accepted: Int = 0) -> TokenRefusalSurge {
        var wave = TokenRefusalSurge(now: start)
        for _ in 0..<accepted { wave.accepted(start) }
        for _ in 0..<refused { wave.refused(start, isProven: true) }
        return wave
    }

    @Test func `fewer than the minimum number of refusals are no surge`() {
        for refused in 0..<TokenRefusalSurge.minimumRefusals { #expect(!makeWave(refused: refused).isActive) }
    }

    @Test func `twenty refusals without acceptances are a surge`() {
        #expect(makeWave(refused: 20).isActive)
    }

    @Test func `a surge requires more refusals than acceptances`() {
        #expect(!makeWave(refused: 20, accepted: 20).isActive)
        #expect(makeWave(refused: 21, accepted: 20).isActive)
        #expect(!makeWave(refused: 1000, accepted: 1000).isActive)
        #expect(makeWave(refused: 1001, accepted: 1000).isActive)
    }

    @Test func `refusals within two minutes count together`() {
        for (gap, isActive) in [(0, true), (59, true), (60, true), (119, true), (120, false), (600, false)] {
            var wave = makeWave(refused: 10)
            for _ in 0..<10 { wave.refused(start + .seconds(gap), isProven: true) }
            #expect(wave.isActive == isActive, "\(gap) s")
        }
    }

    @Test func `slow refusals are no surge, however many there are`() {
        var wave = TokenRefusalSurge(now: start)
        for minute in 0..<500 {
            for _ in 0..<9 { wave.refused(start + .seconds(60 * minute), isProven: true) }
            #expect(!wave.isActive)
        }
    }

    @Test func `a surge lasts until refusals are a quarter of the answers`() {
        var wave = makeWave(refused: 20)
        for _ in 0..<59 {
            wave.accepted(start)
            #expect(wave.isActive)
        }
        wave.accepted(start)
        #expect(!wave.isActive)
    }

    @Test func `after a surge another one again requires more refusals than acceptances`() {
        var wave = makeWave(refused: 20)
        for _ in 0..<60 { wave.accepted(start) }
        for _ in 20..<60 {
            wave.refused(start, isProven: true)
            #expect(!wave.isActive)
        }
        wave.refused(start, isProven: true)
        #expect(wave.isActive)
    }

    @Test func `a surge continues from minute to minute while refusals prevail`() {
        var wave = makeWave(refused: 20)
        for minute in 1..<60 {
            for _ in 0..<3 { wave.refused(start + .seconds(60 * minute), isProven: true) }
            wave.accepted(start + .seconds(60 * minute))
            #expect(wave.isActive)
        }
    }

    @Test(arguments: [60, 120, 300, 86_400])
    func `a surge continues after a quiet period`(_ seconds: Int) {
        var wave = makeWave(refused: 100)
        for _ in 0..<80 {
            wave.refused(start + .seconds(seconds), isProven: true)
            #expect(wave.isActive)
        }
    }

    @Test(arguments: [60, 120, 300, 86_400])
    func `one acceptance does not end a surge, however late it comes`(_ seconds: Int) {
        var wave = makeWave(refused: 100)
        wave.accepted(start + .seconds(seconds))
        #expect(wave.isActive)
    }

    @Test(arguments: [60, 120, 300, 86_400])
    func `many acceptances end a surge, however late they come`(_ seconds: Int) {
        var wave = makeWave(refused: 100)
        for _ in 0..<301 { wave.accepted(start + .seconds(seconds)) }
        #expect(!wave.isActive)
    }

    @Test func `one refusal in ten is no surge, in any order`() {
        for seed in 1...20 as ClosedRange<UInt64> {
            var generator = SplitMix64(seed: seed)
            var wave = TokenRefusalSurge(now: start)
            var now = start
            var hasBegun = false
            for _ in 0..<1000 {
                now = now + .milliseconds(generator.below(3000))
                if generator.below(10) == 0 { wave.refused(now, isProven: true) } else { wave.accepted(now) }
                hasBegun = hasBegun || wave.isActive
            }
            #expect(!hasBegun, "seed \(seed)")
        }
    }

    @Test func `invented device tokens start no surge while others are accepted`() {
        var wave = TokenRefusalSurge(now: start)
        wave.accepted(start)
        for _ in 0..<10_000 { wave.refused(start + .seconds(1), isProven: false) }
        #expect(!wave.isActive)
    }

    @Test func `refusals of proven device tokens start a surge among any number of invented ones`() {
        var wave = TokenRefusalSurge(now: start)
        wave.accepted(start)
        for _ in 0..<1000 { wave.refused(start, isProven: false) }
        for _ in 0..<TokenRefusalSurge.minimumRefusals { wave.refused(start, isProven: true) }
        #expect(wave.isActive)
    }

    @Test func `if nothing is accepted, new device tokens start a surge, and the first acceptance ends it`() {
        var wave = TokenRefusalSurge(now: start)
        for _ in 0..<TokenRefusalSurge.minimumRefusals { wave.refused(start, isProven: false) }
        #expect(wave.isActive)
        wave.accepted(start + .seconds(1))
        #expect(!wave.isActive)
    }
}
