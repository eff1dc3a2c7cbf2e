// SPDX-License-Identifier: Apache-2.0

import Time

/// How many notifications a simulated push service takes, as Apple and Google limit them: for each device, and for the
/// whole topic or project. Requests beyond that get 429, with `retry-after` from FCM and from the push server of Web
/// Push. Unlimited by default.
package struct Quota: Sendable, Equatable {
    /// A token bucket.
    package struct Rate: Sendable, Equatable {
        package var burst: Double
        package var perSecond: Double

        package init(burst: Double, perSecond: Double) {
            self.burst = burst
            self.perSecond = perSecond
        }
    }

    /// The rate of each device; `nil` for no limit. FCM allows 240 messages a minute.
    package var device: Rate?
    /// The rate of the topic or project; `nil` for no limit.
    package var whole: Rate?
    /// How long the rate of the topic rises from 5 % to the maximum after quiet (FCM, "Throttling and scaling best
    /// practices": from 0 in no less than 60 s); zero for no slow start.
    package var rampUp = Duration.zero
    /// How long the topic must have no request to count as quiet.
    package var quiet = Duration.seconds(60)
    /// The notifications a second that the service processes; more wait in a queue and are answered later. `nil` for any
    /// number.
    package var processedPerSecond: Double?

    package init() {}
}

/// Applies a ``Quota``. Contains no clock: the time is a parameter.
struct QuotaMeter {
    /// A bucket that has been used.
    private struct Bucket {
        var available: Double
        var time: MonotonicTime

        /// Takes one token from the bucket.
        /// - Parameter factor: the part of the rate that is allowed now.
        /// - Returns: the time until a token is available; `nil` if one was taken.
        mutating func take(_ rate: Quota.Rate, factor: Double = 1, at now: MonotonicTime) -> Duration? {
            let perSecond = rate.perSecond * factor
            available = min(rate.burst * factor, available + (now - time).milliseconds / 1000 * perSecond)
            time = now
            guard available < 1 - 1e-9 else {
                available -= 1
                return nil
            }
            return .seconds(perSecond > 0 ? (1 - available) / perSecond : 60)
        }
    }

    /// What happens to a request.
    enum Decision: Equatable {
        /// It is answered after this time, in addition to the service's latency.
        case taken(after: Duration)
        /// It is refused, and may be sent again after this time.
        case refused(for: Duration)
    }

    /// The largest number of devices whose buckets the meter keeps. With one more, it forgets them all.
    private static let maximumDevices = 100_000
    /// The smallest part of the rate at the start of a ramp.
    private static let firstPart = 0.05

    var quota = Quota()
    private var whole: Bucket?
    private var devices: [String: Bucket] = [:]
    private var rampStart: MonotonicTime?
    private var lastRequest: MonotonicTime?
    private var busyUntil = MonotonicTime(nanoseconds: 0)

    /// Decides on a request for a device.
    mutating func decide(on device: String, at now: MonotonicTime) -> Decision {
        defer { lastRequest = now }
        if let rate = quota.device {
            if devices.count >= Self.maximumDevices, devices[device] == nil { devices = [:] }
            if let wait = devices[device, default: Bucket(available: rate.burst, time: now)].take(rate, at: now) {
                return .refused(for: wait)
            }
        }
        if let rate = quota.whole {
            let part = part(at: now)
            var bucket = whole ?? Bucket(available: rate.burst * part, time: now)
            let wait = bucket.take(rate, factor: part, at: now)
            whole = bucket
            if let wait { return .refused(for: wait) }
        }
        guard let perSecond = quota.processedPerSecond else { return .taken(after: .zero) }
        let start = max(busyUntil, now)
        busyUntil = start + .seconds(1 / perSecond)
        return .taken(after: busyUntil - now)
    }

    /// The part of the topic's rate that is allowed now.
    private mutating func part(at now: MonotonicTime) -> Double {
        guard quota.rampUp > .zero else { return 1 }
        if lastRequest.map({ now - $0 >= quota.quiet }) ?? true { rampStart = now }
        let part = rampStart.map { (now - $0).milliseconds / quota.rampUp.milliseconds } ?? 1
        return min(1, max(Self.firstPart, part))
    }
}
