// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Simulator
import TNP
import Testing

@testable import Delivery
@testable import Time

@Suite struct DevicePausesTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000_000)

    private func token(_ number: Int) -> Bytes { Array("token-\(number)".utf8)[...] }

    @Test func `one device is left alone for as long as the provider says, and all others go on`() {
        var pauses = DevicePauses(capacity: 10)
        pauses.pause(token(1), seconds: 60, now: start, random: 0)
        #expect(pauses.remaining(token(1), now: start) == .seconds(60))
        #expect(pauses.remaining(token(1), now: start + .seconds(59)) == .seconds(1))
        for other in 2..<100 { #expect(pauses.remaining(token(other), now: start) == nil) }
    }

    @Test func `the pause is over at its last moment`() {
        var pauses = DevicePauses(capacity: 10)
        pauses.pause(token(1), seconds: 60, now: start, random: 0)
        #expect(pauses.remaining(token(1), now: start + (Duration.seconds(60) - .nanoseconds(1))) == .nanoseconds(1))
        #expect(pauses.remaining(token(1), now: start + .seconds(60)) == nil)
    }

    @Test func `a device is known wherever its token lies in a message`() {
        var pauses = DevicePauses(capacity: 10)
        pauses.pause(token(1), seconds: 60, now: start, random: 0)
        let message = Array("...token-1...".utf8)
        #expect(pauses.remaining(message[3..<10], now: start) == .seconds(60))
    }

    @Test func `the pause is longer each time, up to ten minutes`() {
        var pauses = DevicePauses(capacity: 10)
        var now = start
        for seconds in [5, 10, 20, 40, 80, 160, 300, 300] {
            pauses.pause(token(1), seconds: 1, now: now, random: 0.5)
            #expect(pauses.remaining(token(1), now: now) == .seconds(seconds))
            now = now + .seconds(seconds)
        }
    }

    @Test func `the provider's own time is never undercut`() {
        var generator = SplitMix64(seed: 1)
        for _ in 0..<300 {
            var pauses = DevicePauses(capacity: 10)
            var now = start
            for _ in 0..<5 {
                let seconds = UInt32(generator.below(1000))
                pauses.pause(token(1), seconds: seconds, now: now, random: generator.unit())
                let left = pauses.remaining(token(1), now: now) ?? .zero
                #expect(left >= .seconds(seconds))
                #expect(left <= .seconds(1000))
                now = now + left
            }
        }
    }

    @Test func `an answer to something that was already under way does not shorten the pause`() {
        var pauses = DevicePauses(capacity: 10)
        pauses.pause(token(1), seconds: 300, now: start, random: 0)
        pauses.pause(token(1), seconds: 60, now: start + .seconds(1), random: 0)
        #expect(pauses.remaining(token(1), now: start + .seconds(1)) == .seconds(299))
    }

    @Test func `what the provider accepts ends the pause, and the next one is a first one`() {
        var pauses = DevicePauses(capacity: 10)
        for _ in 0..<5 { pauses.pause(token(1), seconds: 60, now: start, random: 0.5) }
        pauses.end(token(2))
        #expect(pauses.remaining(token(1), now: start) != nil)
        pauses.end(token(1))
        #expect(pauses.remaining(token(1), now: start) == nil)
        pauses.pause(token(1), seconds: 1, now: start, random: 0.5)
        #expect(pauses.remaining(token(1), now: start) == .seconds(5))
    }

    @Test func `no more devices are known than there is room for`() {
        var pauses = DevicePauses(capacity: 50)
        for number in 0..<500 {
            pauses.pause(token(number), seconds: 60, now: start, random: 0)
            // The newest has its place in any case.
            #expect(pauses.remaining(token(number), now: start) == .seconds(60))
        }
        let known = (0..<500).count { pauses.remaining(token($0), now: start) != nil }
        #expect(known == 50)
    }

    @Test func `those whose time is over make room before all others`() {
        var pauses = DevicePauses(capacity: 50)
        for number in 0..<50 { pauses.pause(token(number), seconds: number < 20 ? 60 : 600, now: start, random: 0) }
        let later = start + .seconds(60)
        for number in 50..<70 { pauses.pause(token(number), seconds: 60, now: later, random: 0) }
        for number in 20..<70 { #expect(pauses.remaining(token(number), now: later) != nil) }
    }

    @Test func `a device that is known already needs no room`() {
        var pauses = DevicePauses(capacity: 3)
        for number in 0..<3 { pauses.pause(token(number), seconds: 60, now: start, random: 0) }
        for _ in 0..<10 { pauses.pause(token(1), seconds: 60, now: start, random: 0) }
        for number in 0..<3 { #expect(pauses.remaining(token(number), now: start) != nil) }
    }
}
