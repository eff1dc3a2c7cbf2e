// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// Detects a surge of token refusals, which means that the environment or the topic is probably wrong; single refusals
/// mean that a pairing has ended. During a surge senders get RETRY and keep their pairings. Only acceptances end a
/// surge, and not a lack of refusals: the senders that got RETRY may all return much later.
///
/// Anyone can invent device tokens. As long as the provider accepts some token, environment and topic are right, and
/// only refusals of tokens that were accepted before count.
struct TokenRefusalSurge: Sendable {
    /// Share of refusals among all answers above which a surge begins, and at or below which it ends.
    private static let (begins, ends) = (0.5, 0.25)
    /// Refusals required for a surge.
    static let minimumRefusals = 20
    private static let interval = Duration.seconds(60)
    /// How long a sender, or a stored envelope, waits at least before the push service is asked again.
    private static let pause = Duration.seconds(300)
    /// The time between two attempts for stored envelopes to refused, unproven device tokens, which anyone can invent:
    /// a quarter of the default rate at which all senders together may name new ones (`limits.unproven_per_minute`).
    static let questionInterval = Duration.seconds(2)
    /// The longest wait of a stored envelope to a refused, unproven device token.
    static let maximumPause = Duration.seconds(86_400)

    private struct Count {
        /// Refusals of device tokens that were accepted before.
        var refused = 0
        /// Refusals of other device tokens.
        var refusedUnproven = 0
        var accepted = 0
    }

    private(set) var isActive = false
    private var present = Count()
    private var last = Count()
    private var since: MonotonicTime
    /// The latest time of an attempt that ``pause(_:at:)`` has assigned.
    private var lastQuestion = MonotonicTime(nanoseconds: 0)

    init(now: MonotonicTime) { since = now }

    /// Records that the provider accepted an envelope.
    mutating func accepted(_ now: MonotonicTime) {
        advance(now)
        present.accepted += 1
        validate()
    }

    /// Records a refused device token. The caller reports only the first refusal of each token, but every refusal
    /// during a surge.
    mutating func refused(_ now: MonotonicTime, isProven: Bool) {
        advance(now)
        if isProven { present.refused += 1 } else { present.refusedUnproven += 1 }
        validate()
    }

    /// How long an envelope that was refused during a surge waits for its next attempt. The node retries stored
    /// envelopes for up to 28 days: without this rate limit, it would ask again and again about each device token that
    /// a stranger has invented once.
    mutating func pause(_ subject: DeviceKnowledge.Subject, at now: MonotonicTime) -> Duration {
        guard subject.isStored, !subject.isProven else { return Self.pause }
        // At most a day: an envelope may expire before its assigned time, which stays assigned, so strangers could
        // otherwise postpone all later attempts without end.
        lastQuestion = min(max(lastQuestion + Self.questionInterval, now + Self.pause), now + Self.maximumPause)
        return lastQuestion - now
    }

    private mutating func advance(_ now: MonotonicTime) {
        let passed = now - since
        guard passed >= Self.interval else { return }
        // During a surge an interval lasts until it has at least the number of answers required to begin a surge.
        if isActive, present.refused + present.refusedUnproven + present.accepted < Self.minimumRefusals { return }
        last = isActive || passed < Self.interval * 2 ? present : Count()
        present = Count()
        since = now
    }

    private mutating func validate() {
        let accepted = present.accepted + last.accepted
        let unproven = accepted == 0 ? present.refusedUnproven + last.refusedUnproven : 0
        let refused = present.refused + last.refused + unproven
        let rate = Double(refused) / Double(max(1, refused + accepted))
        isActive = isActive ? rate > Self.ends : refused >= Self.minimumRefusals && rate > Self.begins
    }
}
