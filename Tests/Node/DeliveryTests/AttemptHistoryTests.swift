// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns
import TNP
import TestSupport
import Testing

@testable import Delivery
@testable import Providers
@testable import Time

@Suite(.tags(.computing)) struct AttemptHistoryTests {
    // MARK: Each kind of disposition

    @Test func `a final disposition is not retried`() {
        for disposition in everyDisposition where disposition.retry == .never {
            for bounds in [makeBounds(), makeBounds(isStored: true), makeBounds(left: nil)] {
                var attempts = AttemptHistory()
                let step = attempts.next(after: attemptResult(disposition), bounds, random: 0.5)
                #expect(step == .finish)
                #expect(attempts.counted == 0)
            }
        }
    }

    @Test func `a request that was not processed is retried at once and not counted`() {
        var attempts = AttemptHistory()
        for _ in 0..<2 {
            let step = attempts.next(after: attemptResult(.notProcessed), makeBounds(attempts: 1), random: 0.999)
            #expect(step == .again(after: .zero))
        }
        for _ in 2..<16 {
            let step = attempts.next(after: attemptResult(.notProcessed), makeBounds(attempts: 1), random: 0.999)
            let delay = step.delay ?? .seconds(99)
            #expect(delay <= .seconds(1))
        }
        #expect(attempts.counted == 0)
    }

    @Test func `attempts end if the provider never processes the request`() {
        for seed in 1...50 as ClosedRange<UInt64> {
            let run = Run(.notProcessed, RetryPolicy(), isStored: false, ttl: .seconds(86_400), seed: seed)
            #expect(run.end == .finish)
            // 16 uncounted attempts, then the counted ones.
            #expect(run.delays.count == 16 + 4)
            #expect(run.time < .seconds(30))
        }
    }

    @Test func `now-or-never attempts end if the provider never processes the request`() {
        let run = Run(.notProcessed, RetryPolicy(), isStored: false, ttl: nil, seed: 1)
        #expect(run.end == .finish)
        #expect(run.delays.count == 16)
    }

    @Test func `a stored envelope is retried ever more slowly if the provider never processes it`() {
        let run = Run(.notProcessed, RetryPolicy(), isStored: true, ttl: .seconds(3600), seed: 1)
        #expect(run.end == .expire)
        #expect(run.delays.count < 200)
        #expect(run.delays.dropFirst(16).allSatisfy { $0 >= .seconds(1) })
    }

    @Test func `an unknown outcome is replayed once within a second if the envelope is not stored`() {
        for left in [Duration.seconds(3600), nil] {
            var attempts = AttemptHistory()
            let first = attempts.next(after: attemptResult(.outcomeUnknown), makeBounds(left: left), random: 0.75)
            #expect(first == .again(after: .milliseconds(750)))
            #expect(attempts.counted == 1)
            let second = attempts.next(after: attemptResult(.outcomeUnknown), makeBounds(left: left), random: 0.75)
            #expect(second == .finish)
        }
    }

    @Test func `an unknown outcome is replayed once, even with other failures in between`() {
        var attempts = AttemptHistory()
        let steps = [Disposition.outcomeUnknown, .unavailable(seconds: 30), .notProcessed, .outcomeUnknown].map {
            attempts.next(after: attemptResult($0), makeBounds(), random: 0.5)
        }
        #expect(steps.dropLast().allSatisfy { $0.delay != nil })
        #expect(steps.last == .finish)
    }

    @Test func `an unknown outcome of a stored envelope is replayed at once, then after pauses that double`() {
        var attempts = AttemptHistory()
        let first = attempts.next(after: attemptResult(.outcomeUnknown), makeBounds(isStored: true), random: 0.5)
        #expect(first == .again(after: .milliseconds(500)))
        let longest = Duration.seconds(2_419_200)
        var (elapsed, last) = (Duration.zero, Duration.seconds(15))
        var tries = 2
        while true {
            let step = attempts.next(
                after: attemptResult(.outcomeUnknown), makeBounds(isStored: true, left: longest - elapsed), random: 0.5)
            guard let delay = step.delay else {
                #expect(step == .expire)
                break
            }
            #expect(delay == last * 2 || last == .seconds(15) && delay >= .seconds(30))
            last = delay
            elapsed += delay
            tries += 1
        }
        #expect(tries <= 18)
    }

    @Test func `an outage does not use up the replays of a stored envelope`() {
        var attempts = AttemptHistory()
        for _ in 0..<20 {
            _ = attempts.next(after: attemptResult(.unavailable(seconds: 30)), makeBounds(isStored: true), random: 0.5)
        }
        for _ in 0..<2 {
            let step = attempts.next(after: attemptResult(.outcomeUnknown), makeBounds(isStored: true), random: 0.5)
            #expect(step.delay != nil)
        }
    }

    @Test func `a held-back envelope waits if it is stored, and the attempt is not counted`() {
        for retryAfter in [1, 7, 600] as [UInt32] {
            var attempts = AttemptHistory()
            for round in 0..<100 {
                let step = attempts.next(
                    after: attemptResult(.heldBack(.providerUnreachable), retryAfter: retryAfter),
                    makeBounds(isStored: true),
                    random: Double(round) / 100)
                let delay = step.delay ?? .zero
                #expect(delay >= .seconds(retryAfter))
                #expect(delay <= Duration.seconds(retryAfter) * 1.1)
            }
            #expect(attempts.counted == 0)
        }
    }

    @Test func `a held-back envelope that is not stored ends immediately`() {
        for left in [Duration.seconds(3600), nil] {
            var attempts = AttemptHistory()
            let step = attempts.next(
                after: attemptResult(.heldBack(.providerUnreachable), retryAfter: 1), makeBounds(left: left), random: 0)
            #expect(step == .finish)
        }
    }

    // MARK: Pauses

    @Test func `the pause is a random part of a ceiling that doubles from 1 s to 15 min`() {
        let ceilings: [Int] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900]
        var attempts = AttemptHistory()
        for ceiling in ceilings {
            for random in [0, 0.25, 0.5, 0.999] {
                var copy = attempts
                let step = copy.next(
                    after: attemptResult(.unavailable(seconds: 30)), makeBounds(isStored: true), random: random)
                #expect(step == .again(after: Duration.seconds(ceiling) * random))
            }
            _ = attempts.next(after: attemptResult(.unavailable(seconds: 30)), makeBounds(isStored: true), random: 0.5)
        }
    }

    @Test func `a pause is at least Retry-After, and exceeds it by at most a tenth or the backoff`() {
        var generator = SplitMix64(seed: 1)
        let ceilings = Backoff(base: .seconds(1), cap: .seconds(900))
        for _ in 0..<1000 {
            var attempts = AttemptHistory()
            let earlier = generator.below(14)
            for _ in 0..<earlier {
                _ = attempts.next(
                    after: attemptResult(.unavailable(seconds: 30)), makeBounds(isStored: true), random: 0.5)
            }
            let retryAfter = UInt32(60 + generator.below(86_341))
            let step = attempts.next(
                after: attemptResult(.throttled(seconds: 60), retryAfter: retryAfter),
                makeBounds(isStored: true, left: .seconds(200_000)),
                random: generator.unit())
            let delay = step.delay ?? .zero
            let longest = max(Duration.seconds(retryAfter) * 1.1, ceilings.ceiling(afterFailures: earlier))
            // The product of a duration and a fraction is rounded.
            let rounding = Duration.nanoseconds(1)
            #expect(delay >= Duration.seconds(retryAfter) - rounding)
            #expect(delay <= longest + rounding)
        }
    }

    @Test func `a pause is never shorter than the minimum that the provider documents`() {
        var generator = SplitMix64(seed: 2)
        for disposition in everyDisposition {
            guard case .later(let minimum) = disposition.retry else { continue }
            for _ in 0..<20 {
                var attempts = AttemptHistory()
                let step = attempts.next(
                    after: attemptResult(disposition), makeBounds(isStored: true), random: generator.unit())
                let delay = step.delay ?? .zero
                #expect(delay >= .seconds(minimum))
            }
        }
    }

    @Test func `a short Retry-After does not shorten the minimum that the provider documents after 5xx`() {
        for retryAfter in [0, 1, 9] as [UInt32] {
            var attempts = AttemptHistory()
            let step = attempts.next(
                after: attemptResult(.unavailable(seconds: 30, minimum: 10), retryAfter: retryAfter),
                makeBounds(isStored: true),
                random: 0)
            let delay = step.delay ?? .zero
            #expect(delay >= .seconds(10))
        }
    }

    // MARK: Bounds

    @Test(arguments: [1, 2, 5, 100])
    func `limits.attempts bounds the counted attempts`(_ limit: Int) {
        let policy = RetryPolicy(attempts: limit, patience: .seconds(1_000_000))
        let run = Run(.unavailable(seconds: 30), policy, isStored: false, ttl: .seconds(1_000_000), seed: 1)
        #expect(run.end == .finish)
        #expect(run.delays.count == limit - 1)
    }

    @Test(arguments: [1, 2, 5])
    func `a replay after an unknown outcome counts towards limits.attempts`(_ limit: Int) {
        var attempts = AttemptHistory()
        for _ in 1..<limit {
            let step = attempts.next(
                after: attemptResult(.unavailable(seconds: 30)), makeBounds(attempts: limit), random: 0.5)
            #expect(step.delay != nil)
        }
        let last = attempts.next(after: attemptResult(.outcomeUnknown), makeBounds(attempts: limit), random: 0.5)
        #expect(last == .finish)
    }

    @Test func `a stored envelope is retried until its ttl ends, whatever limits.attempts says`() {
        let policy = RetryPolicy(attempts: 1, patience: .zero)
        for disposition in [
            Disposition.unavailable(seconds: 30), .misconfigured, .heldBack(.providerThrottles), .outcomeUnknown,
        ] {
            let run = Run(disposition, policy, isStored: true, ttl: .seconds(7200), seed: 3)
            #expect(run.end == .expire)
            #expect(run.delays.count > 3)
        }
    }

    @Test func `limits.patience bounds the wait for an envelope that is not stored`() {
        let ten = attemptResult(.unavailable(seconds: 30, minimum: 10))
        let patience = Duration.seconds(30)
        var fits = AttemptHistory()
        let last = fits.next(after: ten, makeBounds(patience: patience, age: .seconds(20)), random: 0)
        #expect(last == .again(after: .seconds(10)))
        var late = AttemptHistory()
        let none = late.next(
            after: ten, makeBounds(patience: patience, age: Duration.seconds(20) + .nanoseconds(1)), random: 0)
        #expect(none == .finish)
        var stored = AttemptHistory()
        let patient = stored.next(
            after: ten, makeBounds(patience: patience, isStored: true, age: .seconds(20_000)), random: 0)
        #expect(patient == .again(after: .seconds(10)))
    }

    @Test(arguments: [false, true])
    func `an envelope expires at once if the next attempt would exceed its ttl`(_ isStored: Bool) {
        let ten = attemptResult(.unavailable(seconds: 30, minimum: 10))
        var inTime = AttemptHistory()
        let again = inTime.next(
            after: ten, makeBounds(isStored: isStored, left: Duration.seconds(10) + .nanoseconds(1)), random: 0)
        #expect(again == .again(after: .seconds(10)))
        var late = AttemptHistory()
        let expired = late.next(after: ten, makeBounds(isStored: isStored, left: .seconds(10)), random: 0)
        #expect(expired == .expire)
        var over = AttemptHistory()
        let atOnce = over.next(
            after: attemptResult(.notProcessed), makeBounds(isStored: isStored, left: .zero), random: 0)
        #expect(atOnce == .expire)
    }

    @Test func `a now-or-never envelope does not wait`() {
        for disposition in everyDisposition {
            guard case .later = disposition.retry else { continue }
            var attempts = AttemptHistory()
            let step = attempts.next(after: attemptResult(disposition), makeBounds(left: nil), random: 0)
            #expect(step == .finish)
        }
    }

    @Test func `an envelope that is not stored always ends within its bounds`() {
        var generator = SplitMix64(seed: 4)
        for _ in 0..<2000 {
            let policy = RetryPolicy(attempts: 1 + generator.below(10), patience: .seconds(generator.below(120)))
            let ttl = generator.below(4) == 0 ? nil : Duration.seconds(generator.below(300))
            var (attempts, age, steps) = (AttemptHistory(), Duration.zero, 0)
            while steps < 100 {
                steps += 1
                let disposition = everyDisposition[generator.below(everyDisposition.count)]
                let retryAfter = generator.below(3) == 0 ? UInt32(generator.below(100)) : nil
                let bounds = AttemptHistory.Bounds(
                    policy: policy, isStored: false, age: age, timeLeft: ttl.map { max(.zero, $0 - age) })
                let step = attempts.next(
                    after: attemptResult(disposition, retryAfter: retryAfter), bounds, random: generator.unit())
                guard let delay = step.delay else { break }
                age += delay
                let isBounded = delay >= .zero && age <= policy.patience && age < ttl ?? .seconds(1_000_000)
                #expect(isBounded)
            }
            #expect(steps < 30)
        }
    }
}

// MARK: - Helpers

/// Each row of the outcome tables, and the dispositions that the node itself makes.
private let everyDisposition: [Disposition] = {
    var dispositions: [Disposition] = [.delivered, .notSent, .heldBack(.providerThrottles)]
    dispositions += APNsAnswers.table.map(\.disposition)
    dispositions += FCMAnswers.table.map(\.disposition)
    dispositions += TransportEvent.allCases.map(\.disposition)
    return dispositions
}()

private func attemptResult(_ disposition: Disposition, retryAfter: UInt32? = nil) -> AttemptResult {
    disposition.attemptResult(answer: "of a test", retryAfter: retryAfter)
}

private func makeBounds(
    attempts: Int = 5, patience: Duration = .seconds(3600), isStored: Bool = false, age: Duration = .zero,
    left: Duration? = .seconds(86_400)
) -> AttemptHistory.Bounds {
    AttemptHistory.Bounds(
        policy: RetryPolicy(attempts: attempts, patience: patience), isStored: isStored, age: age, timeLeft: left)
}

extension AttemptHistory.Step {
    fileprivate var delay: Duration? {
        guard case .again(let delay) = self else { return nil }
        return delay
    }
}

/// A run of attempts for one envelope that all have the same disposition and take no time.
private struct Run {
    private(set) var delays: [Duration] = []
    private(set) var end: AttemptHistory.Step?

    /// The sum of all pauses.
    var time: Duration { delays.reduce(.zero, +) }

    init(_ disposition: Disposition, _ policy: RetryPolicy, isStored: Bool, ttl: Duration?, seed: UInt64) {
        var generator = SplitMix64(seed: seed)
        var attempts = AttemptHistory()
        var age = Duration.zero
        while delays.count < 10_000 {
            let bounds = AttemptHistory.Bounds(
                policy: policy, isStored: isStored, age: age, timeLeft: ttl.map { max(.zero, $0 - age) })
            let step = attempts.next(after: attemptResult(disposition), bounds, random: generator.unit())
            guard let delay = step.delay else {
                end = step
                return
            }
            delays.append(delay)
            age += delay
        }
    }
}
