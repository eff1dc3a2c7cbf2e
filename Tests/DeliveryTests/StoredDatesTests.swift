// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import Time

@testable import Delivery

/// Unix times: `today` is the right one.
@Suite(.tags(.computing)) struct StoredDatesTests {
    private let today: Int64 = 1_795_000_000
    private let day: Int64 = 86_400

    @Test func `what was stored before the clock was set does not expire when it is set`() {
        var dates = StoredDates()
        dates.begin(after: 7)
        // Since 1970-01-02.
        let expires = dates.wall(day) + 3600
        dates.stored(8)
        dates.clockStepped(today - day)
        #expect(dates.expiry(ofRow: 8, dated: expires, ttl: 3600, now: day) == day + 3600)
        // Its date is right for Apple, who gets it afterwards, and for rows that are stored from now on.
        #expect(dates.wall(day + 3600) == today + 3600)
        dates.stored(9)
        #expect(dates.expiry(ofRow: 9, dated: today + 60, ttl: 60, now: day) == day + 60)
    }

    @Test func `a clock that jumps and comes back moves nothing`() {
        var dates = StoredDates()
        dates.begin(after: 0)
        dates.stored(1)
        dates.clockStepped(400 * day)
        let ahead = dates.wall(today) + 60
        dates.stored(2)
        dates.clockStepped(0)
        dates.stored(3)
        for (row, expires) in [(1, today + 60), (2, ahead), (3, today + 60)] as [(Int64, Int64)] {
            #expect(dates.expiry(ofRow: row, dated: expires, ttl: 60, now: today) == today + 60)
        }
    }

    @Test func `rows of an earlier run are dated by the clock as this run found it`() {
        var dates = StoredDates()
        dates.begin(after: 5)
        dates.clockStepped(3 * day)
        #expect(dates.expiry(ofRow: 5, dated: today + 60, ttl: 60, now: today) == today + 60)
    }

    @Test func `rows that an earlier run dated by a clock that was never set live for their ttl again`() {
        let dates = StoredDates()
        #expect(dates.expiry(ofRow: 1, dated: day + 3600, ttl: 3600, now: today) == today + 3600)
        // As long as the clock is wrong, they have their dates.
        #expect(dates.expiry(ofRow: 1, dated: day + 3600, ttl: 3600, now: 2 * day) == day + 3600)
        #expect(dates.expiry(ofRow: 1, dated: today - 1, ttl: 3600, now: today) == today - 1)
    }

    @Test func `steps have a bound`() {
        var dates = StoredDates()
        for step in 1...1000 {
            dates.stored(Int64(step))
            dates.clockStepped(Int64(step) * 1000)
        }
        #expect(dates.expiry(ofRow: 1000, dated: today, ttl: 1, now: today) == today - 1_000_000)
        #expect(dates.expiry(ofRow: 1, dated: today, ttl: 1, now: today) == today)
    }
}
