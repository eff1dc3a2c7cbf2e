// SPDX-License-Identifier: Apache-2.0

import Delivery
import Prometheus
import TNP

/// Periodic copies of metrics, from which the dashboard computes the values for about the last hour.
struct RecentMetrics {
    /// The metrics at one moment.
    struct Sample {
        /// Unix time in seconds.
        let time: Int64
        let stages: [NodeMetrics.Stage: HistogramSnapshot]
        /// Latencies of push services.
        let routes: [Route: HistogramSnapshot]
        /// Rejections at admission.
        let refusals: [Reason: Int]
    }

    /// Seconds between two samples.
    private static let interval: Int64 = 300
    /// Samples in an hour.
    private static let maximumSamples = 12

    private var samples: [Sample] = []

    /// Whether the next sample is due.
    func isDue(at now: Int64) -> Bool {
        samples.last.map { now - $0.time >= Self.interval || now < $0.time } ?? true
    }

    /// Adds a sample and removes the oldest if there are too many.
    mutating func add(_ sample: Sample) {
        samples.append(sample)
        if samples.count > Self.maximumSamples { samples.removeFirst() }
    }

    /// The oldest sample: from about an hour ago, or from the start of the node.
    var oldest: Sample? { samples.first }
}
