// SPDX-License-Identifier: Apache-2.0

import Admission
import Delivery
import EventLoop

/// The node's default limits that the flood test checks.
enum NodeDefaults {
    private static let settings = AdmissionSettings()

    /// Maximum number of bad device tokens forwarded to the push services in this time: the budget for device tokens
    /// that were never accepted, plus one for rounding at the end.
    /// - Parameter servesHTTP: whether the node has an HTTP endpoint, which has a budget of its own.
    static func unprovenBudget(in time: Duration, servesHTTP: Bool) -> Int {
        Int(allowed(settings.unproven, in: time)) + 1
            + (servesHTTP ? Int(allowed(settings.httpUnproven, in: time)) + 1 : 0)
    }

    /// How long the node remembers the outcome of an envelope (`limits.replay_window`).
    static let replayWindow = Duration.seconds(DispatchLimits().replaySeconds)

    /// Maximum number of envelopes that may be sent to one phone in this time.
    static func envelopesPerPhone(in time: Duration) -> Double { allowed(settings.device, in: time) }

    /// The time between two envelopes of one honest sender: two seconds, or longer if a run of this length would
    /// otherwise exceed the limit of its phone. A tenth of the limit is kept in reserve for the random pace.
    static func pace(over time: Duration) -> Duration {
        max(.seconds(2), time / (0.9 * envelopesPerPhone(in: time)))
    }

    /// The shortest time between two submissions of a circuit that stays below its rate.
    static var shortestPauseOfCircuit: Duration { .seconds(60) / Double(settings.circuit.perMinute) * 1.05 }

    private static func allowed(_ rate: Rate, in time: Duration) -> Double {
        Double(rate.burst) + Double(rate.perMinute) * (time / .seconds(60))
    }
}
