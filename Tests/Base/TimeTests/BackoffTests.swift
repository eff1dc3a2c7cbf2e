// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TestSupport
import Testing

@testable import Time

@Suite(.tags(.computing)) struct BackoffTests {
    private let fresh = Backoff(base: .milliseconds(250), cap: .seconds(30))

    @Test func `the wait doubles from 250 ms up to 30 s`() {
        var backoff = fresh
        let expected: [Duration] = [
            .milliseconds(250), .milliseconds(500), .seconds(1), .seconds(2), .seconds(4), .seconds(8), .seconds(16),
            .seconds(30), .seconds(30), .seconds(30),
        ]
        for wait in expected {
            let next = backoff.next(random: 1)
            #expect(next == wait)
        }
        #expect(backoff.failures == 10)
    }

    @Test func `the wait is the random fraction of its ceiling`() {
        var none = fresh
        var half = fresh
        var whole = fresh
        for _ in 0..<12 {
            let shortest = none.next(random: 0)
            let middle = half.next(random: 0.5)
            let longest = whole.next(random: 1)
            #expect(shortest == Duration.zero)
            let twice = middle * 2
            #expect(twice == longest)
        }
    }

    @Test func `no wait exceeds 30 s after any number of failures`() {
        var backoff = fresh
        for _ in 0..<10_000 {
            let wait = backoff.next(random: 0.999_999)
            let isBounded = wait >= Duration.zero && wait < backoff.cap
            #expect(isBounded)
        }
    }

    @Test func `a reset restarts the waits`() {
        var backoff = fresh
        for _ in 0..<9 { _ = backoff.next(random: 1) }
        backoff.reset()
        #expect(backoff == fresh)
        let next = backoff.next(random: 1)
        #expect(next == Duration.milliseconds(250))
    }

    @Test(arguments: [62, 63, 64, 65, 127, 128, 1_000_000, Int.max])
    func `a large number of failures does not overflow`(_ failures: Int) {
        #expect(fresh.ceiling(afterFailures: failures) == .seconds(30))
        let endless = Backoff(base: .nanoseconds(1), cap: .seconds(Int64.max))
        #expect(endless.ceiling(afterFailures: failures) <= endless.cap)
    }

    @Test func `doubling continues up to the cap`() {
        let patient = Backoff(base: .seconds(1), cap: .seconds(1 << 40))
        #expect(patient.ceiling(afterFailures: 0) == .seconds(1))
        #expect(patient.ceiling(afterFailures: 39) == .seconds(1 << 39))
        #expect(patient.ceiling(afterFailures: 40) == .seconds(1 << 40))
        #expect(patient.ceiling(afterFailures: 41) == .seconds(1 << 40))
    }

    @Test func `a cap that is not a multiple of the base is reached`() {
        let backoff = Backoff(base: .seconds(60), cap: .seconds(100))
        #expect(backoff.ceiling(afterFailures: 0) == .seconds(60))
        #expect(backoff.ceiling(afterFailures: 1) == .seconds(100))
    }

    @Test func `a base above the cap is reduced to the cap`() {
        #expect(Backoff(base: .seconds(60), cap: .seconds(5)).ceiling(afterFailures: 0) == .seconds(5))
    }
}
