// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Providers
import Time

/// How often and for how long the node itself retries.
package struct RetryPolicy: Sendable, Equatable {
    /// For an envelope that is not in the spool: the maximum number of attempts, not counting immediate repeats.
    package var attempts: Int
    /// How long an envelope that is not in the spool is retried before its sender gets RETRY.
    package var patience: Duration

    package init(attempts: Int = 5, patience: Duration = .seconds(20)) {
        self.attempts = attempts
        self.patience = patience
    }
}

/// Tracks the attempts for one envelope and decides the next step after each result. Pure: time and randomness are
/// parameters.
struct AttemptHistory {
    /// What to do after an attempt.
    enum Step: Equatable {
        /// The result's outcome is the envelope's final outcome.
        case finish
        /// The envelope expires before another attempt could begin.
        case expire
        /// Make another attempt after this pause.
        case again(after: Duration)
    }

    /// What limits further attempts for an envelope.
    struct Bounds {
        let policy: RetryPolicy
        /// Whether the envelope is in the spool, or will be if it has to wait: the node then retries it until its ttl
        /// expires.
        let isStored: Bool
        /// Time since the node accepted the envelope.
        let age: Duration
        /// Time until the envelope expires; `nil` for ttl 0.
        let timeLeft: Duration?
    }

    private static let backoff = Backoff(base: .seconds(1), cap: .seconds(900))
    /// How many repeats of requests that the provider did not process do not count as attempts.
    private static let freeReplays = 16
    private static let replayBackoff = Backoff(base: .milliseconds(5), cap: .seconds(1))
    private static let maximumReplayPause = Duration.seconds(1)
    /// The minimum pause, in seconds, before the next attempt for a stored envelope whose fate was unknown twice. It
    /// doubles with each further unknown fate, because each attempt may ring the phone again: at most 18 attempts in
    /// the longest ttl, 28 days.
    private static let pauseAfterUnknown: UInt32 = 30

    private(set) var counted = 0
    private var backoff = Self.backoff
    private var replays = 0
    private var replayBackoff = Self.replayBackoff
    private var unknownFates = 0
    /// Whether an earlier attempt went out and got no answer.
    var hasUnknownFate: Bool { unknownFates > 0 }
    /// Whether the uncounted repeats are used up; further ones count as attempts and as failures of the lane.
    var isOutOfReplays: Bool { replays >= Self.freeReplays }

    /// Records the result of an attempt and returns the next step.
    /// - Parameter random: from 0 up to 1; drawn only if another attempt follows.
    mutating func next(after result: AttemptResult, _ bounds: Bounds, random: @autoclosure () -> Double) -> Step {
        switch result.disposition.retry {
        case .never: return .finish
        case .atOnce where replays < Self.freeReplays:
            replays += 1
            // The first two repeats have no delay and ignore the patience: a connection that receives GOAWAY refuses
            // each stream once.
            if replays <= 2 { return bounds.timeLeft == .zero ? .expire : .again(after: .zero) }
            return bounded(replayBackoff.next(random: random()), bounds)
        case .onceMore:
            unknownFates += 1
            if unknownFates > 1 {
                guard bounds.isStored else { return .finish }
                return later(Self.pauseAfterUnknown << min(unknownFates - 2, 20), bounds, random: random())
            }
            counted += 1
            guard bounds.isStored || counted < bounds.policy.attempts else { return .finish }
            return bounded(Self.maximumReplayPause * random(), bounds)
        case .atOnce: return later(1, bounds, random: random())
        case .afterHold:
            guard bounds.isStored else { return .finish }
            return bounded(Self.spread(result.retryAfter ?? 1, random: random()), bounds)
        case .later:
            return later(result.disposition.pause(retryAfter: result.retryAfter), bounds, random: random())
        }
    }

    private mutating func later(_ minimum: UInt32, _ bounds: Bounds, random: Double) -> Step {
        counted += 1
        guard bounds.timeLeft != nil, bounds.isStored || counted < bounds.policy.attempts else { return .finish }
        return bounded(max(Self.spread(minimum, random: random), backoff.next(random: random)), bounds)
    }

    /// Adds a random delay of up to a tenth, so that envelopes with the same retry-after do not return at the same
    /// moment.
    private static func spread(_ seconds: UInt32, random: Double) -> Duration {
        Duration.seconds(Int64(seconds)) * (1 + random / 10)
    }

    private func bounded(_ delay: Duration, _ bounds: Bounds) -> Step {
        if let left = bounds.timeLeft, delay >= left { return .expire }
        if !bounds.isStored, bounds.age + delay > bounds.policy.patience { return .finish }
        return .again(after: delay)
    }
}
