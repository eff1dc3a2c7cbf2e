// SPDX-License-Identifier: Apache-2.0

import DequeModule
import Prometheus

/// What came to pass in about the last hour, by what the figures were then: marks in, differences out.
struct RecentMetrics {
    struct Mark {
        /// Unix time in seconds.
        var time: Int64
        var stages: [String: HistogramSnapshot] = [:]
        var providers: [String: HistogramSnapshot] = [:]
        var refusals: [String: Double] = [:]
    }

    /// From one mark to the next, in seconds; and how many make the hour.
    static let interval: Int64 = 300
    private static let most = 12
    private var marks: Deque<Mark> = []

    /// Whether it is time for the next mark.
    func isDue(at now: Int64) -> Bool { marks.last.map { now - $0.time >= Self.interval || now < $0.time } ?? true }

    mutating func note(_ mark: Mark) {
        marks.append(mark)
        if marks.count > Self.most { marks.removeFirst() }
    }

    /// How it was an hour ago, or at the start.
    var before: Mark? { marks.first }
}
