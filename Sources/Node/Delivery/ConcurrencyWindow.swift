// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// Limits the attempts in flight of one lane by AIMD: one more for each window's worth of good answers, 30 % fewer
/// after a failure or when the latency exceeds 3 × the base latency + 50 ms. Pure: events and time are parameters, and
/// the result is a limit.
///
/// A full window causes a queue at the provider. The delay in that queue must not count as the provider's own latency,
/// or the window would grow because of its own effect. So the base latency may fall at any time, but it rises only by
/// measurements under light load: with no more than a quarter of the window in flight, or with the smallest window.
/// Under sustained load the window shrinks to a quarter once a minute until the base is measured again. The base cannot
/// creep up: if the latency limit admits a window only because of that window's own queue, a quarter of the window has
/// a quarter of the latency, and three times that is less than the full window's latency. Each measurement lowers the
/// latency limit towards 3 × the true base + 50 ms, or towards 200 ms if that is more.
struct ConcurrencyWindow: Sendable {
    private static let decrease = 0.7
    /// Minimum time between two decreases, in milliseconds; a decrease takes that long to show an effect.
    private static let shortestRound = 100.0
    /// Answers required for a measurement.
    private static let minimumSamples = 8
    /// Maximum number of answers over which latency is smoothed.
    private static let maximumSmoothing = 64
    /// Age at which the base latency is measured again under sustained load.
    private static let baseLifetime = Duration.seconds(60)

    /// The smallest and the largest window; at least 1.
    var range: ClosedRange<Int> {
        didSet { window = min(max(window, Double(range.lowerBound)), Double(range.upperBound)) }
    }
    private var window: Double
    /// Number of attempts that have begun and not ended.
    private(set) var inFlight = 0
    /// Whether the window doubles each round: until the first decrease, and again after overload or high latency at the
    /// smallest window. The smallest window cannot be their cause, so the earlier decreases say nothing about what the
    /// provider can take.
    private var isSlowStart = true
    private var lastDecrease: MonotonicTime?
    /// When the current measurement began. Answers to earlier attempts are ignored, because these attempts ran under
    /// another window or another load.
    private var since = MonotonicTime(nanoseconds: 0)
    /// Whether no more than a quarter of the window has been in flight since ``since``.
    private var isLightlyLoaded = false
    /// Number of good answers to attempts that began after ``since``.
    private var samples = 0
    /// Smoothed latency of these answers, in milliseconds.
    private var smoothed = 0.0
    /// Latency under light load, in milliseconds; `nil` until it is measured.
    private var base: Double?
    private var baseMeasured = MonotonicTime(nanoseconds: 0)
    /// Whether the window is reduced to a quarter in order to measure the base latency.
    private var isProbing = false

    /// - Parameters:
    ///   - range: bounds of the limit; at least 1.
    ///   - start: the initial limit, clamped to the range.
    init(range: ClosedRange<Int>, start: Int) {
        precondition(range.lowerBound >= 1, "the limit must be at least 1")
        self.range = range
        window = Double(min(max(start, range.lowerBound), range.upperBound))
    }

    /// Attempts that may be in flight now, within ``range``. After a decrease, more may be in flight until they end.
    var limit: Int { isProbing ? quarter : Int(window) }

    /// Whether another attempt may begin.
    var hasRoom: Bool { inFlight < limit }

    private var quarter: Int { max(range.lowerBound, Int(window) / 4) }

    /// Smoothed latency above which the window shrinks, in milliseconds.
    private var latencyLimit: Double { base.map { 3 * $0 + 50 } ?? .infinity }

    /// Records that an attempt begins; ``ended(latency:isOverload:now:)`` or ``abandoned()`` must follow once.
    mutating func began() { inFlight += 1 }

    /// Records that an attempt has ended.
    /// - Parameters:
    ///   - latency: the time from handing the envelope to the provider until the provider's answer; ignored if
    ///     `isOverload`.
    ///   - isOverload: whether the result counts against the lane (``Disposition/LaneEffect/failure`` or
    ///     ``Disposition/LaneEffect/trip``).
    mutating func ended(latency: Duration, isOverload: Bool, now: MonotonicTime) {
        precondition(inFlight > 0, "an attempt must end exactly once")
        let wasUsed = inFlight * 2 >= limit
        let wasLightlyLoaded = isLightlyLoaded
        isLightlyLoaded = inFlight <= quarter
        if isLightlyLoaded, !wasLightlyLoaded { startOver(now) }
        inFlight -= 1
        if isOverload { return shrink(now) }
        guard now - since > latency else { return }
        measure(latency)
        if samples >= Self.minimumSamples { validate(now) }
        if wasUsed, smoothed <= latencyLimit { grow() }
    }

    /// Records the end of an attempt whose result says nothing about the lane; its latency is not measured.
    mutating func abandoned() {
        precondition(inFlight > 0, "an attempt must end exactly once")
        inFlight -= 1
    }

    private mutating func measure(_ latency: Duration) {
        samples += 1
        // Smoothed over a window's worth of answers, within bounds. Latency is capped at twice the limit: a single lost
        // request is not congestion.
        let memory = min(max(Int(window), Self.minimumSamples), Self.maximumSmoothing, samples)
        smoothed += (min(latency.milliseconds, 2 * latencyLimit) - smoothed) / Double(memory)
    }

    /// Takes the smoothed latency as the new base under light load, and otherwise shrinks the window if the latency
    /// exceeds the limit. Called once there are enough answers.
    private mutating func validate(_ now: MonotonicTime) {
        if isLightlyLoaded || base == nil {
            if smoothed > latencyLimit, isSmallest { isSlowStart = true }
            base = smoothed
            baseMeasured = now
            isProbing = false
        } else {
            base = min(base ?? smoothed, smoothed)
            if smoothed > latencyLimit {
                shrink(now)
            } else if now - baseMeasured >= Self.baseLifetime {
                isProbing = true
            }
        }
    }

    private mutating func grow() {
        // Growth shows in the latency one round later, so doubling stops at half the limit.
        let doubles = isSlowStart && smoothed <= latencyLimit / 2
        window = min(window + (doubles ? 1 : 1 / window), Double(range.upperBound))
    }

    /// Shrinks the window, at most once per round.
    private mutating func shrink(_ now: MonotonicTime) {
        if let lastDecrease, (now - lastDecrease).milliseconds < max(smoothed, Self.shortestRound) { return }
        lastDecrease = now
        isSlowStart = isSmallest
        if isSmallest { return }
        window = max(window * Self.decrease, Double(range.lowerBound))
        startOver(now)
    }

    private var isSmallest: Bool { Int(window) == range.lowerBound }

    private mutating func startOver(_ now: MonotonicTime) {
        since = now
        samples = 0
    }
}
