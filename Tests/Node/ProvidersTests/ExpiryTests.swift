// SPDX-License-Identifier: Apache-2.0

import HTTP2
import TNP
import TestSupport
import Testing

@testable import Providers

@Suite(.tags(.computing)) struct ExpiryTests {
    private let now: Int64 = 1_700_000_000

    @Test func `a ttl of 0 is now or never`() {
        let expiry = Expiry(ttl: 0, takenAt: now)
        #expect(expiry == .nowOrNever)
        #expect(expiry.epochSeconds == 0)
        #expect(expiry.secondsLeft(at: now) == 0)
        for time in [0, now, .max] as [Int64] { #expect(!expiry.hasPassed(at: time)) }
    }

    @Test(arguments: [1, 60, 3600, Envelope.maximumTTL, .max] as [UInt32])
    func `a ttl counts from when the node accepted the envelope, not from the attempt`(_ ttl: UInt32) {
        let expiry = Expiry(ttl: ttl, takenAt: now)
        #expect(expiry == .at(now + Int64(ttl)))
        #expect(expiry.epochSeconds == now + Int64(ttl))
    }

    @Test func `the remaining time decreases to zero and no further`() {
        let expiry = Expiry(ttl: 60, takenAt: now)
        for (passed, left) in [(0, 60), (1, 59), (59, 1), (60, 0), (61, 0), (1_000_000, 0)] as [(Int64, Int64)] {
            #expect(expiry.secondsLeft(at: now + passed) == left)
        }
    }

    @Test func `the FCM ttl never exceeds its maximum, even if the clock was set back`() {
        let expiry = Expiry(ttl: Envelope.maximumTTL, takenAt: now)
        #expect(expiry.secondsLeft(at: now) == 2_419_200)
        #expect(expiry.secondsLeft(at: now - 86_400) == 2_419_200)
        #expect(Expiry.at(.max).secondsLeft(at: 0) == 2_419_200)
    }

    @Test func `the expiry has passed from its own second on`() {
        let expiry = Expiry(ttl: 60, takenAt: now)
        #expect(!expiry.hasPassed(at: now))
        #expect(!expiry.hasPassed(at: now + 59))
        #expect(expiry.hasPassed(at: now + 60))
        #expect(expiry.hasPassed(at: now + 61))
    }

    @Test func `time remains exactly until the expiry has passed`() {
        let expiry = Expiry(ttl: 5, takenAt: now)
        for passed in -2...8 as ClosedRange<Int64> {
            #expect((expiry.secondsLeft(at: now + passed) > 0) != expiry.hasPassed(at: now + passed))
        }
    }
}

@Suite(.tags(.computing)) struct ClockSkewTests {
    private let providerTime: Int64 = 784_111_777

    private func skew(_ date: String, now: Int64) -> ClockSkew? {
        var headers = HeaderBlock()
        headers.append("date", date)
        return ClockSkew(headers, now: now)
    }

    @Test(arguments: [0, 1, -1, 2, -2, 3599, -86_400] as [Int64])
    func `the skew is this machine's clock minus the provider's`(_ seconds: Int64) {
        let found = skew("Sun, 06 Nov 1994 08:49:37 GMT", now: providerTime + seconds)
        #expect(found?.seconds == seconds)
    }

    @Test func `the skew is described in plain words`() {
        let words: [(seconds: Int64, words: String)] = [
            (0, "this machine's clock agrees with the provider's"),
            (1, "this machine's clock agrees with the provider's"),
            (-1, "this machine's clock agrees with the provider's"),
            (2, "this machine's clock is 2 s ahead of the provider's"),
            (-3600, "this machine's clock is 3600 s behind the provider's"),
        ]
        for (seconds, words) in words {
            let found = skew("Sun, 06 Nov 1994 08:49:37 GMT", now: providerTime + seconds)
            #expect(found?.description == words)
        }
    }

    @Test(arguments: ["", "now", "784111777", "06 Nov 1994 08:49:37 GMT"])
    func `without a valid date there is no skew`(_ date: String) {
        #expect(skew(date, now: providerTime) == nil)
        #expect(ClockSkew(HeaderBlock(), now: providerTime) == nil)
    }
}
