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

    @Test func `single refusals are none`() {
        for refused in 0..<TokenRefusalSurge.minimumRefusals { #expect(!makeWave(refused: refused).isActive) }
    }

    @Test func `twenty refusals and nothing else are one`() {
        #expect(makeWave(refused: 20).isActive)
    }

    @Test func `it takes more refusals than acceptances`() {
        #expect(!makeWave(refused: 20, accepted: 20).isActive)
        #expect(makeWave(refused: 21, accepted: 20).isActive)
        #expect(!makeWave(refused: 1000, accepted: 1000).isActive)
        #expect(makeWave(refused: 1001, accepted: 1000).isActive)
    }

    @Test func `refusals of two minutes count together, and no longer`() {
        for (gap, isActive) in [(0, true), (59, true), (60, true), (119, true), (120, false), (600, false)] {
            var wave = makeWave(refused: 10)
            for _ in 0..<10 { wave.refused(start + .seconds(gap), isProven: true) }
            #expect(wave.isActive == isActive, "\(gap) s")
        }
    }

    @Test func `refusals that come slowly are none, however many they are`() {
        var wave = TokenRefusalSurge(now: start)
        for minute in 0..<500 {
            for _ in 0..<9 { wave.refused(start + .seconds(60 * minute), isProven: true) }
            #expect(!wave.isActive)
        }
    }

    @Test func `it lasts until refusals are a quarter of the answers`() {
        var wave = makeWave(refused: 20)
        for _ in 0..<59 {
            wave.accepted(start)
            #expect(wave.isActive)
        }
        wave.accepted(start)
        #expect(!wave.isActive)
    }

    @Test func `once over, it takes more than half again to begin another`() {
        var wave = makeWave(refused: 20)
        for _ in 0..<60 { wave.accepted(start) }
        for _ in 20..<60 {
            wave.refused(start, isProven: true)
            #expect(!wave.isActive)
        }
        wave.refused(start, isProven: true)
        #expect(wave.isActive)
    }

    @Test func `while it lasts it goes on from minute to minute`() {
        var wave = makeWave(refused: 20)
        for minute in 1..<60 {
            for _ in 0..<3 { wave.refused(start + .seconds(60 * minute), isProven: true) }
            wave.accepted(start + .seconds(60 * minute))
            #expect(wave.isActive)
        }
    }

    @Test(arguments: [60, 120, 300, 86_400])
    func `those who come back after a quiet time find it lasting`(_ seconds: Int) {
        var wave = makeWave(refused: 100)
        for _ in 0..<80 {
            wave.refused(start + .seconds(seconds), isProven: true)
            #expect(wave.isActive)
        }
    }

    @Test(arguments: [60, 120, 300, 86_400])
    func `one acceptance does not end it, however long after`(_ seconds: Int) {
        var wave = makeWave(refused: 100)
        wave.accepted(start + .seconds(seconds))
        #expect(wave.isActive)
    }

    @Test(arguments: [60, 120, 300, 86_400])
    func `many acceptances end it, however long after`(_ seconds: Int) {
        var wave = makeWave(refused: 100)
        for _ in 0..<301 { wave.accepted(start + .seconds(seconds)) }
        #expect(!wave.isActive)
    }

    @Test func `a tenth of refusals is none, in whatever order they come`() {
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

    @Test func `invented device tokens start no wave while others are accepted`() {
        var wave = TokenRefusalSurge(now: start)
        wave.accepted(start)
        for _ in 0..<10_000 { wave.refused(start + .seconds(1), isProven: false) }
        #expect(!wave.isActive)
    }

    @Test func `device tokens that were accepted before start a wave among any number of invented ones`() {
        var wave = TokenRefusalSurge(now: start)
        wave.accepted(start)
        for _ in 0..<1000 { wave.refused(start, isProven: false) }
        for _ in 0..<TokenRefusalSurge.minimumRefusals { wave.refused(start, isProven: true) }
        #expect(wave.isActive)
    }

    @Test func `where nothing at all is accepted new device tokens start a wave, and the first acceptance ends it`() {
        var wave = TokenRefusalSurge(now: start)
        for _ in 0..<TokenRefusalSurge.minimumRefusals { wave.refused(start, isProven: false) }
        #expect(wave.isActive)
        wave.accepted(start + .seconds(1))
        #expect(!wave.isActive)
    }
}
