// SPDX-License-Identifier: Apache-2.0

/// The state of a histogram at one moment.
package struct HistogramSnapshot: Sendable, Equatable {
    /// The inclusive upper bounds of the buckets, ascending, without `+Inf`.
    package let bounds: [Double]
    /// The number of observations in each bucket, not cumulative; the last bucket is the one up to `+Inf`.
    package internal(set) var counts: [UInt64]
    /// The sum of all observations.
    package internal(set) var sum = 0.0

    /// Creates a snapshot without observations.
    init(bounds: [Double]) {
        self.bounds = bounds
        counts = Array(repeating: 0, count: bounds.count + 1)
    }

    /// The number of observations.
    package var count: UInt64 { counts.reduce(0, +) }

    mutating func record(_ value: Double, bucket: Int) {
        counts[bucket] += 1
        sum += value
    }

    /// Returns the observations made after `earlier`, or all of them if `earlier` is not an earlier state of the same
    /// histogram.
    package func since(_ earlier: HistogramSnapshot) -> HistogramSnapshot {
        guard bounds == earlier.bounds, zip(counts, earlier.counts).allSatisfy(>=) else { return self }
        var difference = self
        for bucket in counts.indices { difference.counts[bucket] -= earlier.counts[bucket] }
        difference.sum -= earlier.sum
        return difference
    }

    /// Estimates the `q`-quantile of the observations as Prometheus' `histogram_quantile` does: interpolates linearly within
    /// a bucket, starts the first bucket at 0, and treats observations above the last bound as equal to it.
    /// - Returns: `nil` if there are no observations or `q` is not in 0 to 1.
    package func quantile(_ q: Double) -> Double? {
        let total = count
        guard (0...1).contains(q), total > 0 else { return nil }
        let rank = q * Double(total)
        var below: UInt64 = 0
        for (bucket, bound) in bounds.enumerated() where counts[bucket] > 0 {
            let inBucket = counts[bucket]
            if Double(below + inBucket) >= rank {
                let start = bucket == 0 ? 0 : bounds[bucket - 1]
                return start + (bound - start) * ((rank - Double(below)) / Double(inBucket))
            }
            below += inBucket
        }
        return bounds.last
    }
}
