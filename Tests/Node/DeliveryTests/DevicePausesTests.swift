// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns
import TNP
import TestSupport
import Testing

@testable import Delivery
@testable import Time

@Suite(.tags(.computing)) struct DevicePausesTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000_000)

    private func token(_ number: Int) -> TableKey {
        TableKey(DeviceIdentity(Array("token-\(number)".utf8)[...], of: .android))
    }

    @Test func `a pause applies to one device for as long as the provider says`() {
        var pauses = DevicePauses(capacity: 10)
        pauses.pause(token(1), seconds: 60, now: start, random: 0)
        #expect(pauses.remaining(token(1), now: start) == .seconds(60))
        #expect(pauses.remaining(token(1), now: start + .seconds(59)) == .seconds(1))
        for other in 2..<100 { #expect(pauses.remaining(token(other), now: start) == nil) }
    }

    @Test func `a pause ends exactly on time`() {
        var pauses = DevicePauses(capacity: 10)
        pauses.pause(token(1), seconds: 60, now: start, random: 0)
        #expect(pauses.remaining(token(1), now: start + (Duration.seconds(60) - .nanoseconds(1))) == .nanoseconds(1))
        #expect(pauses.remaining(token(1), now: start + .seconds(60)) == nil)
    }

    @Test func `a device token is recognised at any position in a message`() {
        var pauses = DevicePauses(capacity: 10)
        pauses.pause(token(1), seconds: 60, now: start, random: 0)
        let message = Array("...token-1...".utf8)
        #expect(pauses.remaining(TableKey(DeviceIdentity(message[3..<10], of: .android)), now: start) == .seconds(60))
    }

    @Test func `the pause doubles each time, up to ten minutes`() {
        var pauses = DevicePauses(capacity: 10)
        var now = start
        for seconds in [5, 10, 20, 40, 80, 160, 300, 300] {
            pauses.pause(token(1), seconds: 1, now: now, random: 0.5)
            #expect(pauses.remaining(token(1), now: now) == .seconds(seconds))
            now = now + .seconds(seconds)
        }
    }

    @Test func `a pause is never shorter than the provider's own time`() {
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

    @Test func `an answer to an earlier request does not shorten a pause`() {
        var pauses = DevicePauses(capacity: 10)
        pauses.pause(token(1), seconds: 300, now: start, random: 0)
        pauses.pause(token(1), seconds: 60, now: start + .seconds(1), random: 0)
        #expect(pauses.remaining(token(1), now: start + .seconds(1)) == .seconds(299))
    }

    /// How many of many attempts may begin now.
    private func admitted(_ pauses: inout DevicePauses, at now: MonotonicTime) -> Int {
        (0..<100).count { _ in pauses.admit(token(1), now: now) == nil }
    }

    @Test func `after a pause the number of attempts a second doubles, until the device works again`() {
        var pauses = DevicePauses(capacity: 10)
        #expect(admitted(&pauses, at: start) == 100)
        pauses.pause(token(1), seconds: 60, now: start, random: 0)
        #expect(pauses.admit(token(1), now: start) == .seconds(60))
        var now = start + .seconds(60)
        for expected in [1, 2, 4, 8, 16, 32] {
            #expect(admitted(&pauses, at: now) == expected)
            #expect(pauses.admit(token(1), now: now + .milliseconds(300)) == .milliseconds(700))
            // All acceptances of a batch count once, those of other devices not at all.
            for _ in 0..<expected { pauses.accepted(token(1), now: now + .milliseconds(400)) }
            pauses.accepted(token(2), now: now)
            now = now + .seconds(1)
        }
        #expect(admitted(&pauses, at: now) == 100 && pauses.count == 0)
    }

    @Test func `without an acceptance one attempt a second may begin`() {
        var pauses = DevicePauses(capacity: 10)
        pauses.pause(token(1), seconds: 60, now: start, random: 0)
        for second in 60..<70 { #expect(admitted(&pauses, at: start + .seconds(second)) == 1) }
    }

    @Test func `the next pause begins with one attempt, and an acceptance of before it does not end it`() {
        var pauses = DevicePauses(capacity: 10)
        pauses.pause(token(1), seconds: 1, now: start, random: 0)
        var now = start + .seconds(1)
        for _ in 0..<3 {
            _ = admitted(&pauses, at: now)
            pauses.accepted(token(1), now: now)
            now = now + .seconds(1)
        }
        pauses.pause(token(1), seconds: 60, now: now, random: 0)
        pauses.accepted(token(1), now: now + .seconds(1))
        #expect(pauses.remaining(token(1), now: now + .seconds(1)) == .seconds(59))
        #expect(admitted(&pauses, at: now + .seconds(60)) == 1)
    }

    @Test func `a device that works again has its first, short pauses again`() {
        var pauses = DevicePauses(capacity: 10)
        for _ in 0..<5 { pauses.pause(token(1), seconds: 60, now: start, random: 0.5) }
        var now = start + .seconds(600)
        for _ in 0..<6 {
            _ = admitted(&pauses, at: now)
            pauses.accepted(token(1), now: now)
            now = now + .seconds(1)
        }
        pauses.pause(token(1), seconds: 1, now: now, random: 0.5)
        #expect(pauses.remaining(token(1), now: now) == .seconds(5))
    }

    @Test func `no more devices are paused than the capacity allows`() {
        var pauses = DevicePauses(capacity: 50)
        for number in 0..<500 {
            pauses.pause(token(number), seconds: 60, now: start, random: 0)
            // The newest device is always paused.
            #expect(pauses.remaining(token(number), now: start) == .seconds(60))
        }
        let known = (0..<500).count { pauses.remaining(token($0), now: start) != nil }
        #expect(known == 50)
    }

    @Test func `expired pauses are evicted first`() {
        var pauses = DevicePauses(capacity: 50)
        for number in 0..<50 { pauses.pause(token(number), seconds: number < 20 ? 60 : 600, now: start, random: 0) }
        let later = start + .seconds(60)
        for number in 50..<70 { pauses.pause(token(number), seconds: 60, now: later, random: 0) }
        for number in 20..<70 { #expect(pauses.remaining(token(number), now: later) != nil) }
    }

    @Test func `a device that is already paused needs no additional capacity`() {
        var pauses = DevicePauses(capacity: 3)
        for number in 0..<3 { pauses.pause(token(number), seconds: 60, now: start, random: 0) }
        for _ in 0..<10 { pauses.pause(token(1), seconds: 60, now: start, random: 0) }
        for number in 0..<3 { #expect(pauses.remaining(token(number), now: start) != nil) }
    }
}
