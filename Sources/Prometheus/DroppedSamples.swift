// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Counts what the registry dropped, by reason. A drop indicates an error in the program: the catalogue and the
/// instrumented code disagree, or a family has more series than planned.
final class DroppedSamples: Sendable {
    enum Reason: String, CaseIterable, Error {
        /// The catalogue does not contain the metric.
        case name
        /// The catalogue declares the metric with another kind.
        case kind
        /// The catalogue declares the metric with other labels, or a label's value is too long.
        case labels
        /// The family already has its maximum of series.
        case series
        /// A negative increment of a counter, or an observation that is negative, infinite or NaN.
        case value
    }

    /// Counts the metrics and recorded values that the registry dropped.
    static let family = MetricFamily(
        "tocsin_metrics_dropped_total", .counter,
        help: "Metrics and recorded values that the registry dropped, by reason.",
        labels: ["reason"], maximumSeries: Reason.allCases.count)

    private let counts = Mutex<[Reason: Int]>([:])

    func count(_ reason: Reason) { counts.withLock { $0[reason, default: 0] += 1 } }

    subscript(reason: Reason) -> Int { counts.withLock { $0[reason, default: 0] } }
}
