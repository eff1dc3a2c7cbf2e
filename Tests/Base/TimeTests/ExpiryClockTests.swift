// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import Time

@Suite(.tags(.computing)) struct ExpiryClockTests {
    private func at(_ seconds: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: (1000 + seconds) * 1_000_000_000) }

    @Test func `it goes on over steps of the wall clock, and says how far that has stepped`() {
        var clock = ExpiryClock(wall: 100, at: at(0))
        #expect(clock.reading(wall: 160, at: at(60)).unix == 160)
        #expect(clock.reading(wall: 1_795_000_000, at: at(61)).unix == 161)
        #expect(clock.steps == 1_795_000_000 - 161)
        #expect(clock.reading(wall: 1_795_000_099, at: at(160)).unix == 260)
        // Back again, and further.
        #expect(clock.reading(wall: -40, at: at(161)).unix == 261)
        #expect(clock.steps == -301)
    }

    @Test func `it follows small corrections`() {
        var clock = ExpiryClock(wall: 1_795_000_000, at: at(0))
        #expect(clock.reading(wall: 1_795_000_300, at: at(0)).unix == 1_795_000_300)
        #expect(clock.reading(wall: 1_795_000_000, at: at(0)).unix == 1_795_000_000)
        #expect(clock.steps == 0)
    }
}
