// SPDX-License-Identifier: Apache-2.0

import Time

/// How much work is asked for a submission: none in calm times; under pressure more and more, until those who flood
/// cannot pay for more than the node can serve. Rises within seconds and falls over minutes, as tor's own defence of
/// onion services does (proposal 327).
///
/// Submissions are tallied from one change to the next, for at most 30 s. The tally shows
/// - *pressure*, where at least 3 submissions and 5 % were refused, or the queue is more than half full and does not
///   shrink: the effort rises, at most every 2 s, to twice as much, or to half as much again as was paid on average by
///   those who got in;
/// - *calm*, where fewer than 3 submissions or less than 1 % were refused, and the queue was never more than a quarter
///   full: once the tally is 30 s old, the effort falls to two thirds.
///
/// Between the two nothing changes, so that the effort stays where it is right.
///
/// Only who pays moves it: what came with less than is asked is not tallied, however often it was refused, and what came
/// with much more counts as four times what is asked. Else a few dear proofs would be enough to lock all others out.
package struct EffortControl: Sendable {
    /// When work is asked.
    package enum Mode: String, CaseIterable, Sendable {
        /// Never.
        case off
        /// Under pressure.
        case adaptive
        /// Also when there is none.
        case always
    }

    /// What the operator decides.
    package struct Settings: Sendable, Equatable {
        package let mode: Mode
        /// Effort where anything is asked, in expected hashes, at least 1.
        package let least: UInt32
        /// The effort that is never exceeded, at least ``least``.
        package let most: UInt32

        /// The defaults are about 7 ms and 7 s of a desktop's time, at 400 ns a hash.
        /// - Precondition: 1 ≤ `least` ≤ `most`.
        package init(mode: Mode = .adaptive, least: UInt32 = 1 << 14, most: UInt32 = 1 << 24) {
            precondition(1 <= least && least <= most)
            self.mode = mode
            self.least = least
            self.most = most
        }
    }

    /// What has come since the last change, or in the last 30 s.
    struct Tally {
        var arrivals: UInt32 = 0
        var refused: UInt32 = 0
        /// Sum of the efforts paid by those who were not refused: at most 2³² each, so that it cannot overflow.
        var paid: UInt64 = 0
        /// The largest share of the queue in use.
        var peak = 0.0

        /// Counts up to 2³² − 1 arrivals, and no more.
        mutating func add(isRefused: Bool, paid effort: UInt32) {
            guard arrivals < .max else { return }
            arrivals += 1
            if isRefused { refused += 1 } else { paid += UInt64(effort) }
        }

        /// Whether at least `percent` of the arrivals were refused; a few refusals are none.
        func isRefused(percent: UInt64) -> Bool {
            refused >= EffortControl.fewest && UInt64(refused) * 100 >= UInt64(arrivals) * percent
        }

        /// Effort paid on average by those who were not refused.
        var mean: UInt64 { paid / max(1, UInt64(arrivals - refused)) }
    }

    /// How long after a change it may rise, and fall.
    private static let (rises, falls) = (Duration.seconds(2), Duration.seconds(30))
    /// Percent of the arrivals refused, and share of the queue in use, from which there is pressure, and below which there
    /// is calm.
    private static let (pressedRefusals, calmRefusals) = (5 as UInt64, 1 as UInt64)
    private static let (pressedQueue, calmQueue) = (0.5, 0.25)
    /// Of fewer submissions nothing is concluded.
    private static let fewest = 3
    /// A submission counts as having paid at most so many times what is asked.
    private static let mostCounted: UInt64 = 4

    /// Clamps ``effort`` when it is set; ``tick(queue:now:)`` does not report that change.
    package var settings: Settings {
        didSet {
            effort = clamped(UInt64(effort))
            tally = Tally()
        }
    }
    /// Expected hashes that are asked for a submission; 0: nothing is asked.
    package private(set) var effort: UInt32 = 0
    private var tally = Tally()
    /// When the tally began.
    private var since: MonotonicTime
    /// Share of the queue in use at the last tick.
    private var queue = 0.0

    package init(_ settings: Settings, now: MonotonicTime) {
        self.settings = settings
        since = now
        effort = clamped(0)
    }

    /// A submission wanted in.
    /// - Parameters:
    ///   - isRefused: it met with pressure: the queue was full, or the budget that this controls was used up. A refusal
    ///     by another rule (a limit of its sender's own, a proof that is missing or wrong) is not to be counted here.
    ///   - paid: effort of its proof, where it holds; else 0.
    package mutating func count(isRefused: Bool, paid: UInt32) {
        guard paid >= effort else { return }
        tally.add(isRefused: isRefused, paid: UInt32(min(UInt64(paid), UInt64(effort) * Self.mostCounted)))
    }

    /// To be called about once a second.
    /// - Parameter queue: share of the bounded queue in use, from 0 to 1.
    /// - Returns: whether ``effort`` has changed.
    package mutating func tick(queue: Double, now: MonotonicTime) -> Bool {
        // A queue that shrinks needs time, not dearer newcomers.
        let isCrowded = queue > Self.pressedQueue && queue >= self.queue
        self.queue = queue
        tally.peak = max(tally.peak, queue)
        // Where the clock goes back, time begins again.
        since = min(since, now)

        let isPressed =
            tally.isRefused(percent: Self.pressedRefusals) || (isCrowded && tally.arrivals >= Self.fewest)
        let isCalm = !tally.isRefused(percent: Self.calmRefusals) && tally.peak <= Self.calmQueue
        let before = effort
        switch now - since {
        case Self.rises... where isPressed:
            effort = clamped(max(UInt64(settings.least), UInt64(effort) * 2, tally.mean * 3 / 2))
        case Self.falls...:
            if isCalm {
                let less = UInt64(effort) * 2 / 3
                effort = clamped(less < settings.least ? 0 : less)
            }
        default: return false
        }
        tally = Tally()
        since = now
        return effort != before
    }

    /// The nearest effort that the settings allow; 0 stands for nothing asked.
    private func clamped(_ effort: UInt64) -> UInt32 {
        switch settings.mode {
        case .off: 0
        case .adaptive where effort == 0: 0
        case .adaptive, .always: UInt32(min(max(effort, UInt64(settings.least)), UInt64(settings.most)))
        }
    }
}
