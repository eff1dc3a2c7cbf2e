// SPDX-License-Identifier: Apache-2.0

import DequeModule
import Prometheus

/// Periodic copies of metrics, from which the dashboard computes the values for about the last hour.
package struct RecentMetrics {
    /// The metrics at one moment.
    package struct Sample {
        /// Unix time in seconds.
        var time: Int64
        /// Latencies by stage.
        package var stages: [String: HistogramSnapshot] = [:]
        /// Latencies of push services by route.
        package var providers: [String: HistogramSnapshot] = [:]
        /// Rejections at admission by reason.
        package var refusals: [String: Double] = [:]

        /// - Parameters: as the properties of the same names.
        package init(
            time: Int64, stages: [String: HistogramSnapshot] = [:], providers: [String: HistogramSnapshot] = [:],
            refusals: [String: Double] = [:]
        ) {
            self.time = time
            self.stages = stages
            self.providers = providers
            self.refusals = refusals
        }
    }

    /// Seconds between two marks.
    package static let interval: Int64 = 300
    /// Marks in an hour.
    private static let most = 12
    /// Creates a history without marks.
    package init() {}

    private var marks: Deque<Sample> = []

    /// Whether the next mark is due.
    package func isDue(at now: Int64) -> Bool {
        marks.last.map { now - $0.time >= Self.interval || now < $0.time } ?? true
    }

    /// Adds a mark and removes the oldest if there are too many.
    package mutating func add(_ mark: Sample) {
        marks.append(mark)
        if marks.count > Self.most { marks.removeFirst() }
    }

    /// The oldest mark: from about an hour ago, or from the start of the node.
    package var oldest: Sample? { marks.first }
}
