// SPDX-License-Identifier: Apache-2.0

import Time

/// What a cluster may admit under a rate that its nodes share (Docs/cluster.md, "When a part fails").
struct SharedLimit {
    let burst: Int
    let perMinute: Int
    let nodes: Int
    /// How many submissions nodes may have admitted alone.
    private var alone = 0.0

    init(burst: Int, perMinute: Int, nodes: Int) {
        self.burst = burst
        self.perMinute = perMinute
        self.nodes = nodes
    }

    /// Notes that a node decided alone for this time: it admits its share of the rate, and begins with a full burst.
    mutating func decidedAlone(for time: Duration) {
        alone += (Double(burst) + Double(perMinute) * time.minutes) / Double(nodes)
    }

    /// The most that the cluster may have admitted in this time, including what nodes have admitted alone.
    func maximum(in time: Duration) -> Int { burst + Int(Double(perMinute) * time.minutes + alone) }
}

extension Duration {
    fileprivate var minutes: Double { milliseconds / 60_000 }
}
