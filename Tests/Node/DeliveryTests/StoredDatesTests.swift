// SPDX-License-Identifier: Apache-2.0

import TNP
import TestSupport
import Testing
import Time

@testable import Delivery

/// Unix times: `today` is the right one.
@Suite(.tags(.computing)) struct StoredDatesTests {
    private let today: Int64 = 1_795_000_000
    private let day: Int64 = 86_400

    private func row(expires: Int64, ttl: UInt32 = 3600) throws -> SpooledEnvelope {
        let envelope = try Envelope(
            app: [], magic: .iOS, deviceToken: Array("0f0f".utf8)[...], iv: Array("0123456789abcdef".utf8)[...],
            ciphertext: [UInt8](repeating: 1, count: 32)[...], ttl: ttl, format: .pipe)
        return SpooledEnvelope(app: "", format: .pipe, envelope: envelope, expires: expires)
    }

    @Test func `what was stored before the clock was set does not expire when it is set`() throws {
        var dates = StoredDates()
        dates.begin(after: 7, at: day)
        // Since 1970-01-02.
        let expires = dates.wall(day) + 3600
        dates.stored(8)
        dates.clockStepped(today - day)
        #expect(dates.expiry(ofRow: 8, try row(expires: expires), now: day) == day + 3600)
        // Its date is right for Apple, who gets it afterwards, and for rows that are stored from now on.
        #expect(dates.wall(day + 3600) == today + 3600)
        dates.stored(9)
        #expect(dates.expiry(ofRow: 9, try row(expires: today + 60), now: day) == day + 60)
        // A row of an earlier run, whose clock was right, does not live for years.
        #expect(dates.expiry(ofRow: 7, try row(expires: today + 60), now: day) == day + 3600)
    }

    @Test func `a clock that jumps and comes back moves nothing`() throws {
        var dates = StoredDates()
        dates.begin(after: 0, at: today)
        dates.stored(1)
        dates.clockStepped(400 * day)
        let ahead = dates.wall(today) + 60
        dates.stored(2)
        dates.clockStepped(0)
        dates.stored(3)
        for (number, expires) in [(1, today + 60), (2, ahead), (3, today + 60)] as [(Int64, Int64)] {
            #expect(dates.expiry(ofRow: number, try row(expires: expires), now: today) == today + 60)
        }
    }

    @Test func `rows of an earlier run are dated by the clock as this run found it`() throws {
        var dates = StoredDates()
        dates.begin(after: 5, at: today)
        dates.clockStepped(3 * day)
        #expect(dates.expiry(ofRow: 5, try row(expires: today + 60), now: today) == today + 60)
    }

    @Test func `what another clock dated that was never set lives for its ttl again, but not for ever`() throws {
        var dates = StoredDates()
        dates.begin(after: 5, at: today)
        #expect(dates.expiry(ofRow: 1, try row(expires: day + 3600), now: today + 10) == today + 3600)
        #expect(dates.expiry(ofRow: nil, try row(expires: day + 3600), now: today + 10) == today + 3610)
        // As long as the clock is wrong, they have their dates.
        #expect(dates.expiry(ofRow: 1, try row(expires: 2 * day + 60), now: 2 * day) == 2 * day + 60)
        #expect(dates.expiry(ofRow: 1, try row(expires: today - 1), now: today) == today - 1)
    }

    @Test(arguments: [Int64.max, 1 << 41, 1]) func `no date of another node traps`(_ expires: Int64) throws {
        var dates = StoredDates()
        dates.begin(after: 0, at: today)
        for steps in [0, -today, today] {
            dates.clockStepped(steps)
            #expect(dates.expiry(ofRow: nil, try row(expires: expires), now: today) <= today + 3600)
        }
    }

    @Test func `steps have a bound, beyond which a row expires rather later`() throws {
        var dates = StoredDates()
        dates.begin(after: 0, at: today)
        for step in 1...1000 {
            dates.stored(Int64(step))
            dates.clockStepped(Int64(step % 7) * 1000)
        }
        for number in 1...1000 as ClosedRange<Int64> {
            let taken = today + (number - 1) % 7 * 1000
            #expect(dates.expiry(ofRow: number, try row(expires: taken + 60), now: today) >= today + 60)
        }
    }
}
