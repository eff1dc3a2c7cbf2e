// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP

/// The result of a flood.
struct FloodReport {
    /// Statistics of the honest senders, by phase.
    var honest: [FloodPhase: HonestStatistics] = [:]
    /// The node's resource usage, by phase.
    var node: [FloodPhase: ProcessUsage] = [:]
    /// Statistics of the honest senders that started during the flood.
    var newcomers = HonestStatistics()
    /// The time from a newcomer's first submission to its first delivery, for each that began, in no order; `nil` if
    /// nothing was delivered.
    var firstRings: [Duration?] = []
    /// Statistics of the hostile circuits, by kind.
    var hostile: [HostileKind: HostileStatistics] = [:]
    /// What the push services rejected during the attack.
    var refusals = Refusals()
    /// The duration of the attack.
    var attackDuration = Duration.zero
    /// The number of envelopes that the attackers replay.
    var replayed = 0
    /// How often a phone rang again for the same envelope.
    var repeats = 0
    /// Whether the node still delivered after the flood.
    var isAlive = false

    /// Maximum number of bad device tokens that the node may forward during the attack.
    var unprovenBudget: Int { NodeDefaults.unprovenBudget(in: attackDuration, servesHTTP: hostile[.http] != nil) }

    /// The honest senders' p99 latency under the flood, divided by that of the calm phase; `nil` if one is missing.
    var p99Ratio: Double? {
        guard let calm = honest[.calm], let flooded = honest[.flooded], calm.delivered > 0, flooded.delivered > 0
        else { return nil }
        return flooded.latencies.p99 / calm.latencies.p99
    }

    /// The expectations that the node did not meet, as text.
    /// - Parameter maxMegabytes: the limit of the node's resident memory; `nil` for none.
    func violations(maxMegabytes: Int? = nil) -> [String] {
        var broken: [String] = []
        for (phase, when) in [(FloodPhase.calm, "in the calm phase"), (.flooded, "under the flood")] {
            let figures = honest[phase] ?? HonestStatistics()
            if figures.submitted == 0 { broken.append("the honest senders submitted nothing \(when)") }
            let missing = figures.submitted - figures.delivered
            if missing > 0 {
                broken.append("\(missing) of \(figures.submitted) honest envelopes were not delivered \(when)")
            }
        }
        if refusals.badTokens > unprovenBudget {
            broken.append(
                "\(refusals.badTokens) bad device tokens were forwarded; the unproven budget is \(unprovenBudget)")
        }
        let peak = (node[.flooded]?.peakKilobytes ?? 0) / 1024
        if let maxMegabytes, peak > maxMegabytes {
            broken.append("the node used \(peak) MB of memory; \(maxMegabytes) are allowed")
        }
        // A flood that did not reach the node proves nothing.
        for (kind, figures) in hostile.sorted(by: { $0.key.rawValue < $1.key.rawValue })
        where figures.circuits > 0 && figures.connections == 0 {
            broken.append("no hostile circuit of the kind \(kind.title) reached the node")
        }
        // The node forgets an outcome after its replay window: then a replayed envelope may ring again.
        if repeats > replayed * Int(attackDuration / NodeDefaults.replayWindow) {
            broken.append("phones rang again for the same envelope, \(repeats) times in all")
        }
        let unreadable = hostile.values.reduce(0) { $0 + $1.unreadable }
        if unreadable > 0 { broken.append("the node sent invalid TNP on \(unreadable) streams") }
        if !isAlive { broken.append("the node no longer delivers") }
        return broken
    }
}
