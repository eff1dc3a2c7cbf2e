// SPDX-License-Identifier: Apache-2.0

import Admission
import EventLoop

/// What a node allows where its configuration says nothing, as far as the flood test holds it to that.
enum NodeDefaults {
    private static let settings = AdmissionSettings()

    /// How many bad device tokens the push services may see in this time, at most: all that the budget for device tokens
    /// that were never accepted gives, and one for the moment at the end.
    static func unprovenBudget(in time: Duration) -> Int { Int(allowed(settings.unproven, in: time)) + 1 }

    /// How many envelopes one phone may be sent in this time.
    static func envelopesToAPhone(in time: Duration) -> Double { allowed(settings.device, in: time) }

    /// The time between two envelopes of one honest sender: two seconds, or longer where a run of this length would
    /// otherwise use up what its phone may be sent. A tenth of that is left for chance.
    static func pace(over time: Duration) -> Duration {
        max(.seconds(2), time / (0.9 * envelopesToAPhone(in: time)))
    }

    private static func allowed(_ rate: Rate, in time: Duration) -> Double {
        Double(rate.burst) + Double(rate.perMinute) * (time / .seconds(60))
    }
}
