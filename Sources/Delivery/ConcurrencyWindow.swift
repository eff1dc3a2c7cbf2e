// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// How many attempts may be under way at one provider at a time: one more for each window's worth of good answers, less
/// by three tenths when the provider is overloaded or answers three times slower than it would in peace (AIMD). Events
/// and time in, a number out.
///
/// The queue that a full window makes at the provider must never pass for the provider's own latency, else the window
/// would grow by what it has done itself. So the base latency falls at any time but rises only by what was measured in
/// peace: with at most a quarter of the window under way, or the least that there can be. Under lasting pressure there
/// is no peace, and the window is held down to a quarter for a moment once a minute. This cannot creep: where a window is
/// borne only because of its own queue, a quarter of it has a quarter of its latency, and three times that is less. Each
/// measurement brings what is borne down towards 3 × the true base + 50 ms, or 200 ms where that is more.
struct ConcurrencyWindow: Sendable {
    private static let decrease = 0.7
    /// In milliseconds; less is no time to see what a decrease has brought.
    private static let shortestRound = 100.0
    /// So many answers make a measurement.
    private static let fewestSamples = 8
    /// The longest that one answer is remembered for, in answers.
    private static let longestMemory = 64
    /// How long the base stands under pressure before it is measured again.
    private static let renewal = Duration.seconds(60)

    /// What the limit may be, from 1 up.
    var range: ClosedRange<Int> {
        didSet { window = min(max(window, Double(range.lowerBound)), Double(range.upperBound)) }
    }
    private var window: Double
    /// AttemptHistory that have begun and not ended.
    private(set) var underWay = 0
    /// Whether it doubles in each round: until the first decrease, and again where there is trouble at the least window,
    /// too. Then the window does not make the trouble, and what it became smaller for was no measure of it.
    private var isSlowStart = true
    private var lastDecrease: MonotonicTime?
    /// AttemptHistory that began until then have met another window or another crowd: they count for nothing.
    private var since = MonotonicTime(nanoseconds: 0)
    /// Whether no more than a quarter of the window has been under way since then.
    private var isPeaceful = false
    /// Good answers to attempts that began after it.
    private var samples = 0
    /// What they took, smoothed, in milliseconds.
    private var smoothed = 0.0
    /// What an answer takes in peace, in milliseconds; nil: not yet known.
    private var base: Double?
    private var baseMeasured = MonotonicTime(nanoseconds: 0)
    /// Whether the window is held down until there is peace to measure the base in.
    private var isProbing = false

    /// - Parameters:
    ///   - range: what the limit may be, from 1 up.
    ///   - start: the limit at first; brought into the range.
    init(range: ClosedRange<Int>, start: Int) {
        precondition(range.lowerBound >= 1, "a window of none would stay so for ever")
        self.range = range
        window = Double(min(max(start, range.lowerBound), range.upperBound))
    }

    /// How many may be under way now, within the range. More are for a while, after it has become less.
    var limit: Int { isProbing ? quarter : Int(window) }

    /// Whether another attempt may begin.
    var hasRoom: Bool { underWay < limit }

    private var quarter: Int { max(range.lowerBound, Int(window) / 4) }

    /// The smoothed latency above which the window becomes smaller, in milliseconds.
    private var tolerated: Double { base.map { 3 * $0 + 50 } ?? .infinity }

    /// An attempt begins; ``ended(latency:isOverload:now:)`` follows, once.
    mutating func began() { underWay += 1 }

    /// An attempt has ended.
    /// - Parameters:
    ///   - latency: from handing it to the provider to its answer.
    ///   - isOverload: whether the provider has said 429 for all or 503, or nothing came; then the latency says nothing.
    mutating func ended(latency: Duration, isOverload: Bool, now: MonotonicTime) {
        precondition(underWay > 0, "an attempt ends once")
        let wasUsed = underWay * 2 >= limit
        let wasPeaceful = isPeaceful
        isPeaceful = underWay <= quarter
        if isPeaceful, !wasPeaceful { startOver(now) }
        underWay -= 1
        if isOverload { return shrink(now) }
        guard now - since > latency else { return }
        measure(latency)
        if samples >= Self.fewestSamples { validate(now) }
        if wasUsed, smoothed <= tolerated { grow() }
    }

    /// An attempt that began has ended without the provider having had a part in it: it tells nothing.
    mutating func gaveUp() {
        precondition(underWay > 0, "an attempt ends once")
        underWay -= 1
    }

    private mutating func measure(_ latency: Duration) {
        samples += 1
        // Over a window's worth of answers, within reason. None counts for more than twice what is tolerated: a single
        // one that was lost on its way is no congestion.
        let memory = min(max(Int(window), Self.fewestSamples), Self.longestMemory, samples)
        smoothed += (min(latency.milliseconds, 2 * tolerated) - smoothed) / Double(memory)
    }

    /// There are enough answers to say something about the window as it is.
    private mutating func validate(_ now: MonotonicTime) {
        if isPeaceful || base == nil {
            if smoothed > tolerated, isLeast { isSlowStart = true }
            base = smoothed
            baseMeasured = now
            isProbing = false
        } else {
            base = min(base ?? smoothed, smoothed)
            if smoothed > tolerated {
                shrink(now)
            } else if now - baseMeasured >= Self.renewal {
                isProbing = true
            }
        }
    }

    private mutating func grow() {
        // What is under way grows for a round before that shows, so doubling ends halfway to what is tolerated.
        let doubles = isSlowStart && smoothed <= tolerated / 2
        window = min(window + (doubles ? 1 : 1 / window), Double(range.upperBound))
    }

    /// Less, unless it has become less within a round.
    private mutating func shrink(_ now: MonotonicTime) {
        if let lastDecrease, (now - lastDecrease).milliseconds < max(smoothed, Self.shortestRound) { return }
        lastDecrease = now
        isSlowStart = isLeast
        if isLeast { return }
        window = max(window * Self.decrease, Double(range.lowerBound))
        startOver(now)
    }

    private var isLeast: Bool { Int(window) == range.lowerBound }

    private mutating func startOver(_ now: MonotonicTime) {
        since = now
        samples = 0
    }
}
