// SPDX-License-Identifier: Apache-2.0

import TNP

/// Counts final outcomes, per minute for the last hour and per ten minutes for the last day. Its size is constant.
package struct History: Sendable {
    private var minutes = BucketRing(width: 60, count: 60)
    package private(set) var intervals = BucketRing(width: 600, count: 144)

    /// Creates a history without outcomes.
    package init() {}

    /// Counts the outcome of an envelope. QUEUED is not final and is not counted.
    /// - Parameter now: Unix time in seconds.
    package mutating func count(_ kind: Outcome.Kind, at now: Int64) {
        var one = NodeSnapshot.Bucket(start: now)
        switch kind {
        case .delivered: one.delivered = 1
        case .rejected: one.rejected = 1
        case .retry: one.retry = 1
        case .gone: one.gone = 1
        case .queued: return
        }
        minutes.add(one, at: now)
        intervals.add(one, at: now)
    }

    /// Adds the ten-minute intervals of an earlier process, as rows of ``BucketRing/rows(at:)``.
    package mutating func restore(_ rows: [[Int64]]) { intervals.restore(rows) }

    /// The minutes of the last hour, oldest first; the last one is incomplete.
    package func hour(at now: Int64) -> [NodeSnapshot.Bucket] { minutes.buckets(at: now) }

    /// The ten-minute intervals of the last day, oldest first; the last one is incomplete.
    package func day(at now: Int64) -> [NodeSnapshot.Bucket] { intervals.buckets(at: now) }
}
