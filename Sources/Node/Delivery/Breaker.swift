// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Providers
import TNP
import Time

/// Circuit breaker of a lane (closed → open → half-open): holds envelopes back while the lane fails, and probes until
/// the lane works again. Pure: events and time are parameters, decisions are return values.
package struct Breaker: Sendable {
    /// What the breaker lets through.
    package enum State: String, Sendable, CaseIterable {
        /// Every envelope.
        case closed
        /// No envelope.
        case open
        /// One envelope at a time, as a probe.
        case halfOpen = "half-open"
    }

    /// Why and for how long an envelope must wait; the reason is that of the result that opened the breaker.
    typealias Refusal = (reason: Reason, retryAfter: Duration)

    /// Whether an envelope may go to the provider.
    enum Admission: Equatable {
        case go
        /// The envelope may go out as a probe: its result closes or opens the breaker.
        case probe
        /// The envelope must wait for this time; the reason is that of the result that opened the breaker.
        case refused(Reason, retryAfter: Duration)
    }

    /// Weight of one failure in the moving average: about eight failures in a row open the breaker.
    private static let weight = 0.125
    private static let threshold = 0.65
    /// How long the breaker stays open after failures: the first time, and the maximum.
    private static let strained = (first: Duration.seconds(2), maximum: Duration.seconds(60))
    /// The maximum time that the breaker stays open after an answer that opens it at once
    /// (``Disposition/LaneEffect/trip``).
    private static let maximumBlocked = Duration.seconds(600)
    /// The longest retry-after that the breaker honours, also beyond the two maxima above.
    private static let maximumRetryAfter = Duration.seconds(3600)
    /// Retry-after for envelopes that arrive while a probe is in flight.
    private static let probeTime = Duration.seconds(2)

    /// The current state.
    package private(set) var state = State.closed
    /// Moving average of the share of failed attempts, from 0 to 1.
    private var failures = 0.0
    private var openings = 0
    /// When an open breaker lets a probe through.
    private(set) var openUntil = MonotonicTime(nanoseconds: 0)
    private(set) var reason = Reason.providerUnreachable
    /// Whether a probe is in flight.
    private(set) var isProbing = false

    /// Why and for how long an open breaker holds envelopes back; `nil` if it is closed, half-open or ready for a
    /// probe.
    func refusal(_ now: MonotonicTime) -> Refusal? {
        state == .open && now < openUntil ? (reason, openUntil - now) : nil
    }

    /// The refusal for an envelope that arrives now and cannot wait: like ``refusal(_:)``, but also refuses while a
    /// probe is in flight.
    func arrivalRefusal(_ now: MonotonicTime) -> Refusal? {
        refusal(now) ?? (state == .halfOpen && isProbing ? (reason, Self.probeTime) : nil)
    }

    /// Decides whether to admit an envelope that is ready to go out. After ``Admission/go`` and ``Admission/probe``,
    /// the caller must call ``record(_:retryAfter:wasProbe:now:random:)``.
    mutating func admit(_ now: MonotonicTime) -> Admission {
        if let refusal = refusal(now) { return .refused(refusal.reason, retryAfter: refusal.retryAfter) }
        if state == .closed { return .go }
        if state == .halfOpen, isProbing { return .refused(reason, retryAfter: Self.probeTime) }
        state = .halfOpen
        isProbing = true
        return .probe
    }

    /// Records the result of an attempt.
    /// - Parameters:
    ///   - retryAfter: the provider's retry-after, in seconds.
    ///   - random: from 0 up to 1; drawn only if the breaker opens.
    mutating func record(
        _ disposition: Disposition, retryAfter: UInt32?, wasProbe: Bool, now: MonotonicTime,
        random: @autoclosure () -> Double
    ) {
        if wasProbe { isProbing = false }
        switch disposition.lane {
        case .none: break
        case .success:
            failures *= 1 - Self.weight
            if wasProbe { close() }
        case .failure:
            failures += (1 - failures) * Self.weight
            if wasProbe || (state == .closed && failures > Self.threshold) {
                open(
                    for: max(Self.strained.first, .seconds(retryAfter ?? 0)), atMost: Self.strained.maximum,
                    disposition, now: now, random: random())
            }
        case .trip:
            guard wasProbe || state == .closed else { return }
            open(
                for: .seconds(max(1, disposition.pause(retryAfter: retryAfter))), atMost: Self.maximumBlocked,
                disposition, now: now, random: random())
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
        // Doubles with each failed probe; adds up to a fifth at random, so that lanes do not recover in step.
        let length = max(min(first, Self.maximumRetryAfter), min(first * (1 << min(openings, 10)), longest))
        openings += 1
        openUntil = now + length * (1 + random / 5)
    }
}
