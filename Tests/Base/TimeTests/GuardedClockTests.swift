// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TestSupport
import Testing

@testable import Admission
@testable import Time

@Suite(.tags(.computing)) struct GuardedClockTests {
    private static let day: Int64 = 86_400
    private let start: Int64 = 1_800_000_000

    private func time(_ seconds: Int64) -> MonotonicTime {
        MonotonicTime(nanoseconds: UInt64(seconds + 1000) * 1_000_000_000)
    }

    @Test func `the clock follows the monotonic clock and applies small corrections at once`() {
        var clock = GuardedClock(wall: start, at: time(0))
        #expect(clock.reading(at: time(100)).unix == start + 100)
        clock.observe(wall: start + 110, at: time(100))
        #expect(clock.reading(at: time(100)).unix == start + 110)
        clock.observe(wall: start + 190, at: time(200))
        #expect(clock.reading(at: time(200)).unix == start + 190)
    }

    @Test(arguments: [400, 86_400, 7 * 86_400, -400, -86_400, -365 * 86_400] as [Int64])
    func `a clock step is adopted only after the confirmation time`(_ step: Int64) {
        var clock = GuardedClock(wall: start, at: time(0))
        let confirmation = GuardedClock.stepConfirmation.components.seconds
        for second in stride(from: Int64(1), through: confirmation, by: 60) {
            clock.observe(wall: start + second + step, at: time(second))
            #expect(clock.reading(at: time(second)).unix == start + second)
        }
        clock.observe(wall: start + confirmation + 1 + step, at: time(confirmation + 1))
        #expect(clock.reading(at: time(confirmation + 1)).unix == start + confirmation + 1 + step)
    }

    @Test(arguments: [8, 30, 365 * 6] as [Int64])
    func `a large forward step is limited to the longest step`(_ days: Int64) {
        var clock = GuardedClock(wall: start, at: time(0))
        let confirmation = GuardedClock.stepConfirmation.components.seconds
        for second in stride(from: Int64(1), through: confirmation + 120, by: 60) {
            clock.observe(wall: start + second + days * Self.day, at: time(second))
        }
        let now = clock.reading(at: time(confirmation + 200)).unix
        #expect(now == start + confirmation + 200 + GuardedClock.maximumStep)
        // From then on it follows the wall clock.
        for second in stride(from: confirmation + 240, through: 4 * confirmation, by: 60) {
            clock.observe(wall: start + second + days * Self.day + 100, at: time(second))
            #expect(clock.reading(at: time(second)).unix == start + second + GuardedClock.maximumStep + 100)
        }
    }

    @Test func `a reverted or changed step restarts the confirmation time`() {
        var clock = GuardedClock(wall: start, at: time(0))
        let confirmation = GuardedClock.stepConfirmation.components.seconds
        for second in stride(from: Int64(1), through: 3 * confirmation, by: 60) {
            // Ahead by one year for half the confirmation time, then correct, then ahead by two years.
            let phase = second % (2 * confirmation)
            let step =
                phase < confirmation / 2
                ? 365 * Self.day
                : phase < confirmation ? 0 : phase < confirmation * 3 / 2 ? 730 * Self.day : 0
            clock.observe(wall: start + second + step, at: time(second))
            #expect(clock.reading(at: time(second)).unix == start + second)
        }
    }

    @Test func `a wall clock known to be ahead stays corrected`() {
        var clock = GuardedClock(wall: start, at: time(0))
        clock.assumeAhead(by: 100 * Self.day)
        clock.observe(wall: start + 60, at: time(60))
        #expect(clock.reading(at: time(60)).unix == start + 60 - 100 * Self.day)
    }

    @Test func `a record dated in the future is clamped to today when it is read`() {
        let today: UInt16 = 20_000
        var record = TokenRecord(token: 7)
        record.standing = .proven
        record.day = today + 400
        record.since = UInt64(today + 400) * 86_400_000
        record.sender = 5
        record.clamp(to: today, UInt64(today) * 86_400_000)
        #expect(record.day == today && record.since == UInt64(today) * 86_400_000 && record.sender != 0)
        var unsigned = TokenRecord(token: 8)
        unsigned.unsignedDay = today + 3
        unsigned.clamp(to: today, 0)
        #expect(unsigned.unsignedDay == today)
    }
}
