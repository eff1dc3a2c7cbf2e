// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Delivery
import Store
import Time

/// Keeps the history of each route, and saves all history so that it survives a restart.
final class HistoryKeeper: NodeComponent {
    private let file: String
    private let metrics: NodeMetrics
    /// Writes the file outside the loop, which a slow disk must not stall.
    private let queue: any WorkQueue
    private var hours: [String: BucketRing]
    private let restored: NodeHistory
    private var last = NodeTotals()
    private var saved: NodeHistory?
    private var hasBegun = false
    private var nextSample: MonotonicTime
    private var nextSave: MonotonicTime

    /// The times of deliveries are rounded down to this many seconds, so that a seized disk does not tell exactly when
    /// somebody was rung.
    private static let precision: Int64 = 600
    private static let sampleInterval = Duration.seconds(60)
    private static let saveInterval = Duration.seconds(300)

    /// Reads what earlier processes have left.
    /// - Parameter state: the node's state directory.
    init(in state: String, _ metrics: NodeMetrics, on disk: any Disk) {
        file = "\(state)/history.json"
        self.metrics = metrics
        queue = disk.queue("history")
        restored = NodeHistory(file, startedAt: UnixTime.now)
        hours = restored.routes.mapValues { route in
            var ring = Self.emptyRing
            ring.restore(route.hours)
            return ring
        }
        nextSample = .now + Self.sampleInterval
        nextSave = .now + Self.saveInterval
        metrics.restore(restored)
    }

    private static var emptyRing: BucketRing { BucketRing(width: 3600, count: 24) }

    /// When the node was started in the last day, Unix times in seconds.
    var starts: [Int64] { restored.starts }

    /// The outcomes of a route per hour of the last day, oldest first.
    func hours(of route: String, at now: Int64) -> [NodeSnapshot.Bucket] {
        (hours[route] ?? Self.emptyRing).buckets(at: now)
    }

    func secondPassed() {
        let now = MonotonicTime.now
        guard now >= nextSample else { return }
        nextSample = now + Self.sampleInterval
        sample()
        guard now >= nextSave else { return }
        nextSave = now + Self.saveInterval
        let history = current
        guard history != saved else { return }
        saved = history
        // A failure is harmless: without the file, the next process begins a new history.
        queue.async { [file] in try? history.write(to: file) }
    }

    /// Adds what was counted since the last sample to the present hour.
    private func sample() {
        let totals = metrics.totals
        let now = UnixTime.now
        for (route, counts) in totals.since(last).outcomes {
            hours[route, default: Self.emptyRing].add(NodeSnapshot.Bucket(counts), at: now)
        }
        last = totals
    }

    private var current: NodeHistory {
        var history = restored
        let now = UnixTime.now
        history.intervals = metrics.history.intervals.rows(at: now)
        history.routes = hours.mapValues { NodeHistory.Route(hours: $0.rows(at: now)) }
        for (route, time) in metrics.lastDeliveries {
            history.routes[route, default: .init()].lastDelivery = time - time % Self.precision
        }
        history.routes = history.routes.filter { !$0.value.hours.isEmpty || $0.value.lastDelivery != nil }
        return history
    }

    /// Records that the node serves: without this, ``close(isolation:)`` saves nothing.
    func begin() { hasBegun = true }

    func close(isolation: isolated (any Actor)?) async {
        // A rehearsal must not add a start to the history.
        guard hasBegun else { return }
        sample()
        let history = current
        queue.sync { try? history.write(to: file) }
    }
}
