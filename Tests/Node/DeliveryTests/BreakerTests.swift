// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns
import TNP
import TestSupport
import Testing

@testable import Delivery
@testable import Providers
@testable import Time

@Suite(.tags(.computing)) struct BreakerTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000_000)

    /// A breaker that opened at ``start``.
    private func opened(
        by disposition: Disposition = .unavailable(seconds: 30), retryAfter: UInt32? = nil, random: Double = 0
    ) -> Breaker {
        var breaker = Breaker()
        while breaker.state == .closed {
            breaker.attempt(disposition, at: start, retryAfter: retryAfter, random: random)
        }
        return breaker
    }

    /// The remaining time until the breaker admits a probe.
    private func openTime(_ breaker: Breaker, at now: MonotonicTime) -> Duration? {
        var copy = breaker
        guard case .refused(_, let retryAfter) = copy.admit(now) else { return nil }
        return retryAfter
    }

    // MARK: Opening

    @Test func `the breaker opens after eight failures in a row`() {
        var breaker = Breaker()
        for _ in 0..<7 { breaker.attempt(.unavailable(seconds: 30), at: start) }
        #expect(breaker.state == .closed)
        breaker.attempt(.unavailable(seconds: 30), at: start)
        #expect(breaker.state == .open)
    }

    @Test func `every kind of failure counts`() {
        for disposition in [Disposition.unavailable(seconds: 30), .outcomeUnknown, .quotaExceeded] {
            #expect(opened(by: disposition).state == .open)
        }
    }

    @Test func `half of the attempts may fail, in bursts of up to four, before the breaker opens`() {
        let patterns: [(failures: Int, successes: Int, opens: Bool)] = [
            (1, 1, false), (1, 100, false), (2, 2, false), (3, 3, false), (4, 4, false), (5, 6, false), (6, 9, false),
            (7, 100, false), (2, 1, true), (5, 5, true), (7, 7, true), (8, 100, true),
        ]
        for (failures, successes, opens) in patterns {
            var breaker = Breaker()
            for _ in 0..<100 {
                for _ in 0..<failures where breaker.state == .closed {
                    breaker.attempt(.unavailable(seconds: 30), at: start)
                }
                for _ in 0..<successes where breaker.state == .closed { breaker.attempt(.delivered, at: start) }
            }
            #expect((breaker.state == .open) == opens, "\(failures) failures, \(successes) successes")
        }
    }

    @Test func `the breaker stays closed if one attempt in ten fails, in any order`() {
        for seed in 1...20 as ClosedRange<UInt64> {
            var generator = SplitMix64(seed: seed)
            var breaker = Breaker()
            for _ in 0..<2000 {
                breaker.attempt(generator.unit() < 0.1 ? .unavailable(seconds: 30) : .delivered, at: start)
            }
            #expect(breaker.state == .closed, "seed \(seed)")
        }
    }

    @Test func `the breaker opens within 40 attempts if nine in ten fail, in any order`() {
        for seed in 1...50 as ClosedRange<UInt64> {
            var generator = SplitMix64(seed: seed)
            var breaker = Breaker()
            var attempts = 0
            while breaker.state == .closed, attempts < 100 {
                breaker.attempt(generator.unit() < 0.9 ? .unavailable(seconds: 30) : .delivered, at: start)
                attempts += 1
            }
            #expect(attempts < 40, "seed \(seed)")
        }
    }

    @Test func `answers about the device or the message alone do not open the breaker`() {
        var breaker = Breaker()
        let dispositions: [Disposition] = [
            .badToken, .foreignToken, .gone, .invalidRequest, .tooLarge, .deviceThrottled(seconds: 60), .notProcessed,
            .notSent,
        ]
        for _ in 0..<100 {
            for disposition in dispositions { breaker.attempt(disposition, at: start) }
        }
        #expect(breaker.state == .closed)
    }

    @Test func `a refused credential, a misconfiguration or throttling opens the breaker at once`() {
        for disposition in [Disposition.misconfigured, .credentialRefused, .credentialExpired, .throttled(seconds: 60)]
        {
            var breaker = Breaker()
            breaker.attempt(disposition, at: start)
            #expect(breaker.state == .open)
            #expect(openTime(breaker, at: start) == .seconds(60))
        }
    }

    // MARK: Open

    @Test func `an open breaker refuses everything, with the reason of the answer that opened it`() {
        let reasons: [(disposition: Disposition, reason: Reason)] = [
            (.unavailable(seconds: 30), .providerUnreachable), (.outcomeUnknown, .providerUnreachable),
            (.quotaExceeded, .providerThrottles), (.throttled(seconds: 60), .providerThrottles),
            (.misconfigured, .credentialsRefused), (.credentialExpired, .credentialsRefused),
        ]
        for (disposition, reason) in reasons {
            var breaker = opened(by: disposition)
            for _ in 0..<100 {
                let admission = breaker.admit(start)
                guard case .refused(let actual, _) = admission else {
                    Issue.record("\(admission)")
                    break
                }
                #expect(actual == reason)
            }
        }
    }

    @Test func `retry-after is the time until the next probe`() {
        var generator = SplitMix64(seed: 1)
        for _ in 0..<300 {
            let disposition = generator.below(2) == 0 ? Disposition.unavailable(seconds: 30) : .misconfigured
            var breaker = opened(by: disposition, random: generator.unit())
            var now = start
            // Also after failed probes.
            for _ in 0..<generator.below(6) {
                now = now + (openTime(breaker, at: now) ?? .zero)
                breaker.attempt(disposition, at: now, random: generator.unit())
            }
            guard let whole = openTime(breaker, at: now) else {
                Issue.record("the breaker is not open")
                return
            }
            now = now + whole * (generator.unit() * 0.9)
            guard let wait = openTime(breaker, at: now) else {
                Issue.record("the breaker admits a probe too early")
                return
            }
            var (early, onTime) = (breaker, breaker)
            let tooEarly = early.admit(now + wait * 0.999)
            #expect(tooEarly != .probe && tooEarly != .go)
            let afterWait = onTime.admit(now + wait)
            #expect(afterWait == .probe)
            #expect(breaker.openUntil == now + wait)
        }
    }

    @Test func `retry-after is at least the hold time and at most 1 ms longer`() {
        let times: [(microseconds: Int, milliseconds: UInt32)] = [
            (0, 1), (1, 1), (999, 1), (1000, 1), (1001, 2), (1_500_300, 1501), (60_000_000, 60_000),
        ]
        for (time, milliseconds) in times {
            let held = AttemptResult.heldBack(.providerThrottles, for: .microseconds(time), "breaker-open")
            #expect(held.outcome == .retry(.providerThrottles, after: milliseconds))
            #expect(held.disposition.retry == .afterHold)
            // Stored envelopes wait for this time, in whole seconds.
            let retryAfter = Duration.seconds(held.retryAfter ?? 0)
            #expect(retryAfter >= .microseconds(time))
            #expect(retryAfter <= Duration.microseconds(time) + .seconds(1) + .milliseconds(1))
        }
        let endless = AttemptResult.heldBack(.providerThrottles, for: .seconds(1 << 32), "breaker-open")
        #expect(endless.outcome.retryAfter == .max)
    }

    @Test func `attempts in flight when the breaker opened do not affect it`() {
        for disposition in [Disposition.delivered, .unavailable(seconds: 30), .misconfigured, .notProcessed] {
            var breaker = opened()
            let before = openTime(breaker, at: start)
            for _ in 0..<20 {
                breaker.record(disposition, retryAfter: nil, wasProbe: false, now: start + .seconds(1), random: 0.9)
            }
            #expect(breaker.state == .open)
            #expect(openTime(breaker, at: start) == before)
        }
    }

    // MARK: Half-open

    @Test func `exactly one probe is admitted, and other attempts are told to retry soon`() {
        var breaker = opened()
        let admission = breaker.admit(start + .seconds(2))
        #expect(admission == .probe)
        #expect(breaker.state == .halfOpen)
        for second in 2..<60 {
            let other = breaker.admit(start + .seconds(second))
            #expect(other == .refused(.providerUnreachable, retryAfter: .seconds(2)))
        }
    }

    @Test func `a successful probe closes the breaker`() {
        let successes: [Disposition] = [.delivered, .badToken, .gone, .invalidRequest, .deviceThrottled(seconds: 60)]
        for disposition in successes {
            var breaker = opened()
            breaker.attempt(disposition, at: start + .seconds(2))
            #expect(breaker.state == .closed)
            for _ in 0..<100 {
                let admission = breaker.admit(start + .seconds(2))
                #expect(admission == .go)
            }
        }
    }

    @Test func `an attempt in flight when the breaker opened does not count as the probe`() {
        for disposition in [Disposition.delivered, .unavailable(seconds: 30), .misconfigured, .notProcessed] {
            var breaker = opened()
            let probe = breaker.admit(start + .seconds(2))
            #expect(probe == .probe)
            breaker.record(disposition, retryAfter: nil, wasProbe: false, now: start + .seconds(2), random: 0)
            #expect(breaker.state == .halfOpen)
            let other = breaker.admit(start + .seconds(2))
            #expect(other != .probe && other != .go)
        }
    }

    @Test func `an inconclusive probe is followed by another one`() {
        for disposition in [Disposition.notProcessed, .notSent] {
            var breaker = opened()
            for _ in 0..<10 {
                let admission = breaker.attempt(disposition, at: start + .seconds(2))
                #expect(admission == .probe)
                #expect(breaker.state == .halfOpen)
            }
            breaker.attempt(.delivered, at: start + .seconds(2))
            #expect(breaker.state == .closed)
        }
    }

    @Test func `each failed probe doubles the open time, up to one minute`() {
        expectWaits(.unavailable(seconds: 30), [2, 4, 8, 16, 32, 60, 60, 60])
        expectWaits(.outcomeUnknown, [2, 4, 8, 16, 32, 60, 60, 60])
    }

    @Test func `each probe that trips the breaker doubles the open time, up to ten minutes`() {
        expectWaits(.misconfigured, [60, 120, 240, 480, 600, 600])
        expectWaits(.throttled(seconds: 60), [60, 120, 240, 480, 600, 600])
    }

    @Test func `the breaker stays open for the provider's Retry-After, up to one hour`() {
        expectWaits(.throttled(seconds: 60), retryAfter: 7, [7, 14, 28, 56, 112, 224, 448, 600, 600])
        expectWaits(.throttled(seconds: 60), retryAfter: 3600, [3600, 3600, 3600])
        expectWaits(.throttled(seconds: 60), retryAfter: 86_400, [3600, 3600, 3600])
        expectWaits(.throttled(seconds: 60), retryAfter: 0, [1, 2, 4])
    }

    @Test func `the reason is that of the last probe`() {
        var breaker = opened()
        breaker.attempt(.misconfigured, at: start + .seconds(2))
        let admission = breaker.admit(start + .seconds(3))
        guard case .refused(let reason, _) = admission else {
            Issue.record("\(admission)")
            return
        }
        #expect(reason == .credentialsRefused)
    }

    @Test func `jitter of up to 20 % keeps lanes from probing in step`() {
        var generator = SplitMix64(seed: 5)
        for _ in 0..<100 {
            let time = openTime(opened(random: generator.unit()), at: start) ?? .zero
            #expect(time >= .seconds(2))
            #expect(time <= .milliseconds(2400))
        }
        #expect(openTime(opened(random: 0), at: start) == .seconds(2))
        #expect(openTime(opened(random: 0.5), at: start) == .milliseconds(2200))
    }

    @Test func `closing the breaker clears its history`() {
        var breaker = opened()
        var now = start
        for _ in 0..<5 {
            now = now + .seconds(100)
            breaker.attempt(.unavailable(seconds: 30), at: now)
        }
        now = now + .seconds(100)
        breaker.attempt(.delivered, at: now)
        for _ in 0..<7 { breaker.attempt(.unavailable(seconds: 30), at: now) }
        #expect(breaker.state == .closed)
        breaker.attempt(.unavailable(seconds: 30), at: now)
        #expect(breaker.state == .open)
        #expect(openTime(breaker, at: now) == .seconds(2))
    }

    // MARK: Anything

    @Test func `in any order of answers at most one probe is in flight and nothing else is admitted`() {
        var generator = SplitMix64(seed: 6)
        let dispositions: [Disposition] = [
            .delivered, .delivered, .unavailable(seconds: 30), .outcomeUnknown, .notProcessed, .misconfigured,
            .badToken,
        ]
        for _ in 0..<100 {
            var breaker = Breaker()
            var now = start
            // For each attempt in flight, whether it is the probe.
            var inFlight: [Bool] = []
            for _ in 0..<150 {
                now = now + .milliseconds(generator.below(4000))
                let before = breaker.state
                if generator.below(2) == 0 {
                    let admission = breaker.admit(now)
                    switch admission {
                    case .go:
                        if before != .closed { Issue.record("an attempt was admitted while the breaker was \(before)") }
                        inFlight.append(false)
                    case .probe:
                        if inFlight.contains(true) { Issue.record("a second probe is in flight") }
                        if breaker.state != .halfOpen { Issue.record("a probe while the breaker is \(breaker.state)") }
                        inFlight.append(true)
                    case .refused(_, let retryAfter):
                        if before == .closed { Issue.record("an attempt was refused while the breaker was closed") }
                        if retryAfter <= .zero || retryAfter > .seconds(720) { Issue.record("\(retryAfter)") }
                    }
                } else if !inFlight.isEmpty {
                    let wasProbe = inFlight.remove(at: generator.below(inFlight.count))
                    breaker.record(
                        dispositions[generator.below(dispositions.count)], retryAfter: nil, wasProbe: wasProbe,
                        now: now,
                        random: generator.unit())
                    if !wasProbe, before != .closed, breaker.state != before {
                        Issue.record("the breaker changed from \(before) to \(breaker.state) without a probe")
                    }
                }
            }
        }
    }

    /// Checks the seconds for which the breaker stays open, first and after each failed probe.
    private func expectWaits(
        _ disposition: Disposition, retryAfter: UInt32? = nil, _ waits: [Int],
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        var breaker = opened(by: disposition, retryAfter: retryAfter)
        var now = start
        for wait in waits {
            let time = openTime(breaker, at: now)
            #expect(time == .seconds(wait), sourceLocation: sourceLocation)
            now = now + .seconds(wait)
            breaker.attempt(disposition, at: now, retryAfter: retryAfter)
        }
    }
}

extension Breaker {
    /// Admits and records one attempt, unless the breaker refuses it.
    @discardableResult fileprivate mutating func attempt(
        _ disposition: Disposition, at now: MonotonicTime, retryAfter: UInt32? = nil, random: Double = 0
    ) -> Admission {
        let admission = admit(now)
        if case .refused = admission { return admission }
        record(disposition, retryAfter: retryAfter, wasProbe: admission == .probe, now: now, random: random)
        return admission
    }
}
