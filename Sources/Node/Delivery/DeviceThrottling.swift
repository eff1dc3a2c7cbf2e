// SPDX-License-Identifier: Apache-2.0

/// Detects that a push service throttles the whole lane, although its answers name single devices. APNs has one answer,
/// 429 TooManyRequests, and documents it for one device. But if many devices get it that were not throttled before,
/// their senders are not the cause.
///
/// A sender cannot cause this alone: a device counts once in each of its pauses, which usually last for a minute or
/// more. Answers of upstream nodes do not count: an upstream node throttles any unknown device token, and anyone can
/// invent one.
struct DeviceThrottling: Equatable {
    /// The weight of an answer in the moving average.
    private static let weight = 1.0 / 32
    /// The share of throttling answers above which the lane counts as throttled.
    private static let threshold = 0.1

    /// The share of answers that throttle a device, as an exponentially weighted moving average.
    private var share = 0.0

    /// Records an answer.
    /// - Parameter isThrottled: whether it throttles a device that was not throttled before.
    /// - Returns: whether the lane is throttled.
    mutating func record(isThrottled: Bool) -> Bool {
        share += ((isThrottled ? 1 : 0) - share) * Self.weight
        return share > Self.threshold
    }
}
