// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP

/// What a flood came to.
struct FloodReport {
    var honest: [FloodPhase: HonestStatistics] = [:]
    var node: [FloodPhase: NodeStatistics] = [:]
    /// Those who came new under the flood, and the time until the first of them was delivered.
    var newcomers = HonestStatistics()
    var firstNewcomer: Duration?
    var hostile: [HostileKind: HostileStatistics] = [:]
    /// What the push services refused from the attack's beginning, in ``attacked``.
    var refusals = Refusals()
    var attacked = Duration.zero
    /// How often a phone has rung again for the same envelope.
    var repeats = 0
    /// Whether the node still delivered when it was over.
    var isAlive = false

    var unprovenBudget: Int { NodeDefaults.unprovenBudget(in: attacked) }

    /// The honest senders' 99th percentile under the flood to that in calm; nil where there is none.
    var p99Ratio: Double? {
        guard let calm = honest[.calm], let flooded = honest[.flooded], calm.delivered > 0, flooded.delivered > 0
        else { return nil }
        return flooded.latencies.p99 / calm.latencies.p99
    }

    /// What the node has promised and not kept, in words.
    /// - Parameter maxMegabytes: of its resident memory; nil: not looked at.
    func brokenPromises(maxMegabytes: Int? = nil) -> [String] {
        var broken: [String] = []
        for (phase, when) in [(FloodPhase.calm, "in calm"), (.flooded, "under the flood")] {
            let figures = honest[phase] ?? HonestStatistics()
            if figures.submitted == 0 { broken.append("the honest senders submitted nothing \(when)") }
            let missing = figures.submitted - figures.delivered
            if missing > 0 {
                broken.append("\(missing) of \(figures.submitted) honest envelopes were not delivered \(when)")
            }
        }
        if refusals.badTokens > unprovenBudget {
            broken.append(
                "\(refusals.badTokens) bad device tokens were forwarded, the unproven budget is \(unprovenBudget)")
        }
        let peak = (node[.flooded]?.peakKilobytes ?? 0) / 1024
        if let maxMegabytes, peak > maxMegabytes {
            broken.append("the node took \(peak) MB of memory, \(maxMegabytes) are allowed")
        }
        // A flood that never came proves nothing.
        for (kind, figures) in hostile.sorted(by: { $0.key.rawValue < $1.key.rawValue })
        where figures.circuits > 0 && figures.connections == 0 {
            broken.append("no hostile circuit of the kind \(kind.title) reached the node")
        }
        if repeats > 0 { broken.append("\(repeats) envelopes rang again") }
        let unreadable = hostile.values.reduce(0) { $0 + $1.unreadable }
        if unreadable > 0 { broken.append("on \(unreadable) streams the node said what is not TNP") }
        if !isAlive { broken.append("the node delivers nothing any more") }
        return broken
    }
}
