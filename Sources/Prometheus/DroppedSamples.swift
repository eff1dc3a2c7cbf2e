// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// What was not kept, by what is wrong with it. None of it is an error of the moment: the catalogue and the code that
/// counts do not agree, or there are more series than was thought.
final class DroppedSamples: Sendable {
    enum Reason: String, CaseIterable, Error {
        /// A metric that is not in the catalogue.
        case name
        /// It is of another kind there.
        case kind
        /// It has other labels there, or a label's value is too long.
        case labels
        /// One series more than the family may have.
        case series
        /// A counter that should go down; an observation that is negative, infinite or no number.
        case value
    }

    /// A metric as often as it was asked for, a value as often as it was told.
    static let family = MetricFamily(
        "tocsin_metrics_dropped_total", .counter,
        help: "Metrics that were asked for, and values, that were not kept, by what is wrong with them.",
        labels: ["reason"], maximumSeries: Reason.allCases.count)

    private let counts = Mutex<[Reason: Int]>([:])

    func count(_ reason: Reason) { counts.withLock { $0[reason, default: 0] += 1 } }

    subscript(reason: Reason) -> Int { counts.withLock { $0[reason, default: 0] } }
}
