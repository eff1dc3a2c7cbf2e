// SPDX-License-Identifier: Apache-2.0

import DequeModule
import Prometheus

/// What came to pass in about the last hour, by what the figures were then: marks in, differences out.
package struct RecentMetrics {
    package struct Mark {
        /// Unix time in seconds.
        var time: Int64
        package var stages: [String: HistogramSnapshot] = [:]
        package var providers: [String: HistogramSnapshot] = [:]
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

    /// From one mark to the next, in seconds; and how many make the hour.
    package static let interval: Int64 = 300
    private static let most = 12
    /// A history without marks.
    package init() {}

    private var marks: Deque<Mark> = []

    /// Whether it is time for the next mark.
    package func isDue(at now: Int64) -> Bool {
        marks.last.map { now - $0.time >= Self.interval || now < $0.time } ?? true
    }

    package mutating func note(_ mark: Mark) {
        marks.append(mark)
        if marks.count > Self.most { marks.removeFirst() }
    }

    /// How it was an hour ago, or at the start.
    package var before: Mark? { marks.first }
}
