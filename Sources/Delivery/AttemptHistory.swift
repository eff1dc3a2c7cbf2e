// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Providers
import Time

/// How often and how long the node itself tries.
package struct RetryPolicy: Sendable, Equatable {
    /// AttemptHistory that a provider has had a part in, for an envelope that is not in the spool.
    package var attempts: Int
    /// How long an envelope that is not in the spool is tried before its sender is told RETRY.
    package var patience: Duration

    /// - Parameters: as the properties of the same names.
    package init(attempts: Int = 5, patience: Duration = .seconds(20)) {
        self.attempts = attempts
        self.patience = patience
    }
}

/// What has been tried for one envelope, and what follows from the next attemptResult. Pure: time and randomness come in.
struct AttemptHistory {
    /// What is to be done.
    enum Step: Equatable {
        /// The attemptResult's outcome is the envelope's.
        case finish
        /// Its ttl will have run out before another attempt could begin.
        case expire
        case again(after: Duration)
    }

    /// What bounds the attempts for an envelope.
    struct Bounds {
        let policy: RetryPolicy
        /// Whether it lies in the spool: then only its ttl bounds it, unless its fate is unknown time and again.
        let isStored: Bool
        /// Since it was taken.
        let age: Duration
        /// Until its ttl is over; nil: now or never.
        let left: Duration?
    }

    private static let backoff = Backoff(base: .seconds(1), cap: .seconds(900))
    /// AttemptHistory that a provider did nothing with: so many go out again at once.
    private static let freeReplays = 16
    private static let replayBackoff = Backoff(base: .milliseconds(5), cap: .seconds(1))
    private static let longestReplayPause = Duration.seconds(1)
    /// Between attempts of an envelope in the spool whose fate was unknown more than once.
    private static let pauseAfterUnknown: UInt32 = 30

    private(set) var counted = 0
    private var backoff = Self.backoff
    private var replays = 0
    private var replayBackoff = Self.replayBackoff
    private var unknownFates = 0
    /// Whether it was lost on its way before: an answer never came.
    var hasUnknownFate: Bool { unknownFates > 0 }
    /// Whether it has been sent again at once as often as it may be: who still does nothing with it is out of order.
    var isOutOfReplays: Bool { replays >= Self.freeReplays }

    /// - Parameter random: from 0 up to 1; drawn only where there is another attempt.
    mutating func next(after attemptResult: AttemptResult, _ bounds: Bounds, random: @autoclosure () -> Double) -> Step
    {
        switch attemptResult.disposition.retry {
        case .never: return .finish
        case .atOnce where replays < Self.freeReplays:
            replays += 1
            // The first ones without delay, whatever the patience: a connection that goes away refuses each stream once.
            if replays <= 2 { return bounds.left == .zero ? .expire : .again(after: .zero) }
            return bounded(replayBackoff.next(random: random()), bounds)
        case .onceMore:
            unknownFates += 1
            if unknownFates > 1 {
                guard bounds.isStored, unknownFates < bounds.policy.attempts else { return .finish }
                return later(Self.pauseAfterUnknown, bounds, random: random())
            }
            counted += 1
            guard bounds.isStored || counted < bounds.policy.attempts else { return .finish }
            return bounded(Self.longestReplayPause * random(), bounds)
        case .atOnce: return later(1, bounds, random: random())
        case .notNow:
            guard bounds.isStored else { return .finish }
            return bounded(Self.spread(attemptResult.retryAfter ?? 1, random: random()), bounds)
        case .later:
            return later(
                attemptResult.disposition.pause(retryAfter: attemptResult.retryAfter), bounds, random: random())
        }
    }

    private mutating func later(_ minimum: UInt32, _ bounds: Bounds, random: Double) -> Step {
        counted += 1
        guard bounds.left != nil, bounds.isStored || counted < bounds.policy.attempts else { return .finish }
        return bounded(max(Self.spread(minimum, random: random), backoff.next(random: random)), bounds)
    }

    /// Those who were told to come back at the same time come back within a tenth of it.
    private static func spread(_ seconds: UInt32, random: Double) -> Duration {
        Duration.seconds(Int64(seconds)) * (1 + random / 10)
    }

    private func bounded(_ delay: Duration, _ bounds: Bounds) -> Step {
        if let left = bounds.left, delay >= left { return .expire }
        if !bounds.isStored, bounds.age + delay > bounds.policy.patience { return .finish }
        return .again(after: delay)
    }
}
