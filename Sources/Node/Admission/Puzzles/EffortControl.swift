// SPDX-License-Identifier: Apache-2.0

import Time

/// Controls how much work a submission requires: none in calm times. Under pressure, the effort rises until a flood
/// cannot pay for more submissions than the node can serve. The effort rises within seconds and falls over minutes,
/// like tor's proof-of-work defence for onion services (proposal 327).
///
/// The controller tallies submissions from one change to the next, for at most 30 s. The tally shows
/// - *pressure* if at least 3 submissions and 5 % were refused, or if at least 3 arrived while the queue is more than
///   half full and does not shrink: the effort rises to twice its value or to 1.5 times the average that admitted
///   submissions paid, whichever is more, but no more often than every 2 s;
/// - *calm* if fewer than 3 submissions or less than 1 % were refused, and the queue was never more than a quarter
///   full: once the tally is 30 s old, the effort falls to two thirds.
///
/// Between pressure and calm, the effort does not change, so that it can settle.
///
/// Only senders that pay move the effort. A submission with less than the required effort is not tallied, however often
/// it is refused, and payment counts for at most four times the required effort. Otherwise a few expensive proofs could
/// lock out all other senders.
package struct EffortControl: Sendable {
    /// When proof of work is required.
    package enum Mode: String, CaseIterable, Sendable {
        /// Never.
        case off
        /// Under pressure.
        case adaptive
        /// Always, and more under pressure.
        case always
    }

    /// The operator's settings.
    package struct Settings: Sendable, Equatable {
        /// When proof of work is required.
        package let mode: Mode
        /// The minimum effort when proof of work is required, in expected hashes; 1 or more.
        package let minimum: UInt32
        /// The maximum effort; not less than ``minimum``.
        package let maximum: UInt32

        /// Creates the settings. The default minimum takes a desktop about 7 ms and the default maximum 7 s, at 400 ns
        /// per hash.
        /// - Precondition: 1 ≤ `minimum` ≤ `maximum`.
        package init(mode: Mode = .adaptive, minimum: UInt32 = 1 << 14, maximum: UInt32 = 1 << 24) {
            precondition(1 <= minimum && minimum <= maximum)
            self.mode = mode
            self.minimum = minimum
            self.maximum = maximum
        }
    }

    /// A count of submissions. A new tally begins whenever the effort rises, and after 30 s.
    struct Tally {
        var arrivals: UInt32 = 0
        var refused: UInt32 = 0
        /// The sum of the efforts paid by admitted submissions. Each effort and the number of submissions are below
        /// 2³², so the sum cannot overflow.
        var paid: UInt64 = 0
        /// How full the queue was at its fullest, from 0 to 1.
        var peakQueue = 0.0

        /// Counts an arrival. Stops counting at 2³² − 1 arrivals.
        mutating func add(isRefused: Bool, paid effort: UInt32) {
            guard arrivals < .max else { return }
            arrivals += 1
            if isRefused { refused += 1 } else { paid += UInt64(effort) }
        }

        /// Whether at least ``EffortControl/minimumCount`` submissions and `percent` of the arrivals were refused.
        func isRefused(percent: UInt64) -> Bool {
            refused >= EffortControl.minimumCount && UInt64(refused) * 100 >= UInt64(arrivals) * percent
        }

        /// The mean effort paid by admitted submissions.
        var mean: UInt64 { paid / max(1, UInt64(arrivals - refused)) }
    }

    /// The age of the tally from which the effort may rise, and from which it may fall.
    private static let (riseInterval, fallInterval) = (Duration.seconds(2), Duration.seconds(30))
    /// The thresholds of pressure and calm: refused arrivals in percent, and how full the queue is, from 0 to 1.
    private static let (pressureRefusals, calmRefusals) = (5 as UInt64, 1 as UInt64)
    private static let (pressureQueue, calmQueue) = (0.5, 0.25)
    /// The minimum number of refusals, or of arrivals at a crowded queue, that shows pressure.
    private static let minimumCount = 3
    /// Payment counts for at most this multiple of the required effort.
    private static let maximumOverpayment: UInt64 = 4

    /// The current settings. Setting them clamps ``effort``; ``tick(queue:now:)`` does not report that change.
    package var settings: Settings {
        didSet {
            guard settings != oldValue else { return }
            effort = clamped(UInt64(effort))
            tally = Tally()
        }
    }
    /// The required effort, in expected hashes; 0 if no proof of work is required.
    package private(set) var effort: UInt32 = 0
    private var tally = Tally()
    /// When the tally began.
    private var since: MonotonicTime
    /// How full the queue was at the last tick, from 0 to 1.
    private var queue = 0.0

    /// Starts without pressure.
    package init(_ settings: Settings, now: MonotonicTime) {
        self.settings = settings
        since = now
        effort = clamped(0)
    }

    /// Counts a submission.
    /// - Parameters:
    ///   - isRefused: whether it was refused because of pressure: the queue was full, or the budget that this instance
    ///     controls was used up. Do not count refusals by other rules (a limit of the sender, a missing or invalid
    ///     proof).
    ///   - paid: the effort of its proof if that is valid, else 0.
    package mutating func count(isRefused: Bool, paid: UInt32) {
        guard paid >= effort else { return }
        tally.add(isRefused: isRefused, paid: UInt32(min(UInt64(paid), UInt64(effort) * Self.maximumOverpayment)))
    }

    /// Evaluates the tally. Call this about once a second.
    /// - Parameter queue: how full the bounded queue is, from 0 to 1.
    /// - Returns: whether ``effort`` has changed.
    package mutating func tick(queue: Double, now: MonotonicTime) -> Bool {
        // A shrinking queue needs time, not a higher effort.
        let isCrowded = queue > Self.pressureQueue && queue >= self.queue
        self.queue = queue
        tally.peakQueue = max(tally.peakQueue, queue)
        // If the clock goes back, the tally starts now.
        since = min(since, now)

        let isPressed =
            tally.isRefused(percent: Self.pressureRefusals) || (isCrowded && tally.arrivals >= Self.minimumCount)
        let isCalm = !tally.isRefused(percent: Self.calmRefusals) && tally.peakQueue <= Self.calmQueue
        let before = effort
        switch now - since {
        case Self.riseInterval... where isPressed:
            effort = clamped(max(UInt64(settings.minimum), UInt64(effort) * 2, tally.mean * 3 / 2))
        case Self.fallInterval...:
            if isCalm {
                let less = UInt64(effort) * 2 / 3
                effort = clamped(less < settings.minimum ? 0 : less)
            }
        default: return false
        }
        tally = Tally()
        since = now
        return effort != before
    }

    /// The nearest effort that the settings allow; 0 if no proof of work is required.
    private func clamped(_ effort: UInt64) -> UInt32 {
        switch settings.mode {
        case .off: 0
        case .adaptive where effort == 0: 0
        case .adaptive, .always: UInt32(min(max(effort, UInt64(settings.minimum)), UInt64(settings.maximum)))
        }
    }
}
