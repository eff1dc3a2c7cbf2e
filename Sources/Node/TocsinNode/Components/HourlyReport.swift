// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Logging
import Time

/// Logs once an hour what became of notifications, so that the log shows whether the node worked last night.
final class HourlyReport: NodeComponent {
    private let metrics: NodeMetrics
    private let log: EventLog
    private var last = NodeTotals()
    private var next: Int64
    /// When the last report was made, or the node started.
    private var since = MonotonicTime.now

    private static let interval: Int64 = 3600

    init(_ metrics: NodeMetrics, log: EventLog) {
        self.metrics = metrics
        self.log = log
        next = Self.end(of: UnixTime.now)
    }

    /// The end of the hour to which a time belongs.
    private static func end(of now: Int64) -> Int64 { (now / interval + 1) * interval }

    func secondPassed() {
        let now = UnixTime.now
        // If the clock was set back, the report must not stay away for longer than an hour.
        if next - now > Self.interval { next = Self.end(of: now) }
        guard now >= next else { return }
        next = Self.end(of: now)
        let totals = metrics.totals
        log.report(totals.since(last), minutes: Int((MonotonicTime.now - since).components.seconds / 60))
        (last, since) = (totals, MonotonicTime.now)
    }
}

/// How many notifications had which outcome, and how many submissions were refused.
struct NodeTotals: Equatable {
    /// By route and outcome.
    var outcomes: [String: [String: Int]] = [:]
    /// By reason.
    var refusals: [String: Int] = [:]

    /// What was counted after `earlier`.
    func since(_ earlier: NodeTotals) -> NodeTotals {
        var added = NodeTotals()
        for (route, counts) in outcomes {
            let difference = Self.difference(counts, earlier.outcomes[route] ?? [:])
            if !difference.isEmpty { added.outcomes[route] = difference }
        }
        added.refusals = Self.difference(refusals, earlier.refusals)
        return added
    }

    private static func difference(_ counts: [String: Int], _ earlier: [String: Int]) -> [String: Int] {
        var added: [String: Int] = [:]
        for (name, count) in counts {
            // A counter that is smaller than before has begun again at 0.
            let before = earlier[name].map { $0 <= count ? $0 : 0 } ?? 0
            if count > before { added[name] = count - before }
        }
        return added
    }

    /// The numbers of outcomes by route, and those of refusals under `refused`.
    var counts: [String: [String: Int]] {
        refusals.isEmpty ? outcomes : outcomes.merging(["refused": refusals]) { $1 }
    }
}
