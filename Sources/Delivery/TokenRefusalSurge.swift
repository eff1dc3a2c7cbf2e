// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// Tells a wave of refused device tokens, which says that the environment or the topic is wrong, from single ones, which
/// say that pairings have ended. While it lasts no sender is told to forget a pairing; only acceptances end it, as those
/// who were told to come back later may all do so long after.
///
/// Anybody can invent device tokens. Where others are accepted, it is not the environment or the topic that is wrong, and
/// only the refusals of those count that were accepted before.
struct TokenRefusalSurge: Sendable {
    /// The part of answers that are refusals at which a wave begins, and below which it ends.
    private static let (begins, ends) = (0.5, 0.25)
    /// Fewer refusals than this are none.
    static let smallest = 20
    private static let interval = Duration.seconds(60)

    private struct Count {
        /// Of device tokens that were accepted before.
        var refused = 0
        /// Of those that were not.
        var refusedUnproven = 0
        var accepted = 0
    }

    private(set) var isActive = false
    private var present = Count()
    private var last = Count()
    private var since: MonotonicTime

    init(now: MonotonicTime) { since = now }

    /// The provider has accepted an envelope.
    mutating func accepted(_ now: MonotonicTime) {
        advance(now)
        present.accepted += 1
        validate()
    }

    /// The provider has refused a device token: one that it had not refused before, or any while the wave lasts.
    mutating func refused(_ now: MonotonicTime, isProven: Bool) {
        advance(now)
        if isProven { present.refused += 1 } else { present.refusedUnproven += 1 }
        validate()
    }

    private mutating func advance(_ now: MonotonicTime) {
        let passed = now - since
        guard passed >= Self.interval else { return }
        // A wave is judged by as many answers as it takes to begin one, however long they take to come.
        if isActive, present.refused + present.refusedUnproven + present.accepted < Self.smallest { return }
        last = isActive || passed < Self.interval * 2 ? present : Count()
        present = Count()
        since = now
    }

    private mutating func validate() {
        let accepted = present.accepted + last.accepted
        let unproven = accepted == 0 ? present.refusedUnproven + last.refusedUnproven : 0
        let refused = present.refused + last.refused + unproven
        let rate = Double(refused) / Double(max(1, refused + accepted))
        isActive = isActive ? rate > Self.ends : refused >= Self.smallest && rate > Self.begins
    }
}
