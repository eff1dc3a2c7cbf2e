// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Providers
import TNP
import Time

/// Keeps envelopes from a lane that does not work, and finds out when it does again (closed → open → half-open): events
/// and time in, decisions out.
package struct Breaker: Sendable {
    /// What it lets through.
    package enum State: String, Sendable, CaseIterable {
        /// Everything.
        case closed
        /// Nothing.
        case open
        /// One envelope at a time, to see.
        case halfOpen = "half-open"
    }

    /// Whether an envelope may go to the provider.
    enum Admission: Equatable {
        case go
        /// It may, and what comes of it decides.
        case probe
        /// Not before so long; the reason is that of the attemptResult that opened the breaker.
        case refused(Reason, retryAfter: Duration)
    }

    /// One failure weighs an eighth, so that it takes eight in a row, or nearly, to open.
    private static let weight = 0.125
    private static let threshold = 0.65
    /// How long it is first open after failures, and at most.
    private static let strained = (first: Duration.seconds(2), longest: Duration.seconds(60))
    /// The longest that it is open after an answer that only the operator or time can change, and where the provider
    /// itself wishes for more.
    private static let longestBlocked = Duration.seconds(600)
    private static let longestRetryAfter = Duration.seconds(3600)
    /// What is told to those who come while a probe is out.
    private static let probeTime = Duration.seconds(2)

    package private(set) var state = State.closed
    /// The part of recent attempts that failed, from 0 to 1.
    private var failures = 0.0
    private var openings = 0
    /// When it lets a probe through, where it is open.
    private(set) var opensUntil = MonotonicTime(nanoseconds: 0)
    private var reason = Reason.providerUnreachable
    /// Whether it waits to hear what came of a probe.
    private(set) var isProbing = false

    /// What those are told who wait while it is open; nil: it lets somebody through.
    func refusal(_ now: MonotonicTime) -> (reason: Reason, retryAfter: Duration)? {
        state == .open && now < opensUntil ? (reason, opensUntil - now) : nil
    }

    /// The refusal for an envelope that arrives now and may not wait: as ``refusal(_:)``, and while a probe is under way.
    func turnsBack(_ now: MonotonicTime) -> (reason: Reason, retryAfter: Duration)? {
        refusal(now) ?? (state == .halfOpen && isProbing ? (reason, Self.probeTime) : nil)
    }

    /// An envelope wants to go out. After ``Admission/go`` and ``Admission/probe`` ``record(_:retryAfter:wasProbe:now:random:)``
    /// follows.
    mutating func admit(_ now: MonotonicTime) -> Admission {
        if let refusal = refusal(now) { return .refused(refusal.reason, retryAfter: refusal.retryAfter) }
        switch state {
        case .closed: return .go
        case .open:
            state = .halfOpen
            isProbing = true
            return .probe
        case .halfOpen:
            if isProbing { return .refused(reason, retryAfter: Self.probeTime) }
            isProbing = true
            return .probe
        }
    }

    /// An attempt has come to something.
    /// - Parameters:
    ///   - retryAfter: seconds that the provider asked to be left alone for.
    ///   - random: from 0 up to 1; drawn only where it opens.
    mutating func record(
        _ disposition: Disposition, retryAfter: UInt32?, wasProbe: Bool, now: MonotonicTime,
        random: @autoclosure () -> Double
    ) {
        if wasProbe { isProbing = false }
        switch disposition.lane {
        case .none: break
        case .works:
            failures *= 1 - Self.weight
            if wasProbe { close() }
        case .strained:
            failures += (1 - failures) * Self.weight
            if wasProbe || (state == .closed && failures > Self.threshold) {
                open(
                    for: max(Self.strained.first, .seconds(retryAfter ?? 0)), atMost: Self.strained.longest,
                    disposition, now: now,
                    random: random())
            }
        case .blocked:
            guard wasProbe || state == .closed else { return }
            open(
                for: .seconds(max(1, disposition.pause(retryAfter: retryAfter))), atMost: Self.longestBlocked,
                disposition, now: now,
                random: random())
        }
    }

    private mutating func close() {
        state = .closed
        failures = 0
        openings = 0
    }

    private mutating func open(
        for first: Duration, atMost longest: Duration, _ disposition: Disposition, now: MonotonicTime, random: Double
    ) {
        state = .open
        reason = disposition.reason
        // Longer each time that a probe fails; a fifth of it at random, so that lanes do not come back in step.
        let length = max(min(first, Self.longestRetryAfter), min(first * (1 << min(openings, 10)), longest))
        openings += 1
        opensUntil = now + length * (1 + random / 5)
    }
}
