// SPDX-License-Identifier: Apache-2.0

import AdminPort

/// Records the canary's attempts, and decides when the next one follows. No I/O and no clock.
struct CanaryRecord {
    /// The longest pause before the first attempt, in which tor publishes the onion.
    private static let maximumFirstPause = Duration.seconds(60)
    /// By how much a pause may differ from the interval, as a fraction, so that the times do not identify the node.
    private static let jitter = 0.1

    /// The last attempt; `nil` before the first one.
    private(set) var last: NodeSnapshot.Attempt?
    /// When the phone was last rung; before the first time, when this canary was made, at the start or by a reload.
    /// Unix time in seconds.
    private(set) var lastSuccess: Int64

    init(started: Int64) { lastSuccess = started }

    /// Records an attempt.
    mutating func ended(at time: Int64, isDelivered: Bool, text: String) -> NodeSnapshot.Attempt {
        let attempt = NodeSnapshot.Attempt(isDelivered: isDelivered, text: text)
        last = attempt
        if isDelivered { lastSuccess = time }
        return attempt
    }

    /// The pause before the first attempt.
    /// - Parameter interval: seconds between two attempts.
    static func firstPause(every interval: Int) -> Duration { min(maximumFirstPause, .seconds(interval)) }

    /// The pause before the next attempt.
    /// - Parameters:
    ///   - interval: seconds between two attempts.
    ///   - random: a random number from 0 up to 1, for the jitter.
    static func pause(every interval: Int, random: Double) -> Duration {
        .seconds(interval) * (1 - jitter + 2 * jitter * random)
    }
}
