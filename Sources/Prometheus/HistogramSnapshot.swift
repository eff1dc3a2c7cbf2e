// SPDX-License-Identifier: Apache-2.0

/// A histogram at one moment.
package struct HistogramSnapshot: Sendable, Equatable {
    /// The upper bounds, ascending, each belonging to its bucket; without `+Inf`.
    package let bounds: [Double]
    /// How many observations each bucket has, not cumulative; the last is the bucket up to `+Inf`.
    package private(set) var counts: [UInt64]
    /// All that was observed, added up.
    package private(set) var sum = 0.0

    /// One with no observations.
    init(bounds: [Double]) {
        self.bounds = bounds
        counts = Array(repeating: 0, count: bounds.count + 1)
    }

    /// How many observations there are.
    package var count: UInt64 { counts.reduce(0, +) }

    mutating func record(_ value: Double, bucket: Int) {
        counts[bucket] += 1
        sum += value
    }

    /// Two of the same bounds.
    static func + (one: Self, other: Self) -> Self {
        var both = one
        for bucket in both.counts.indices { both.counts[bucket] += other.counts[bucket] }
        both.sum += other.sum
        return both
    }

    /// What was observed after `earlier`. All of it where `earlier` is not an earlier state of the same histogram.
    package func since(_ earlier: HistogramSnapshot) -> HistogramSnapshot {
        guard bounds == earlier.bounds, zip(counts, earlier.counts).allSatisfy(>=) else { return self }
        var difference = self
        for bucket in counts.indices { difference.counts[bucket] -= earlier.counts[bucket] }
        difference.sum -= earlier.sum
        return difference
    }

    /// An estimate of the value that the share `q` (0 to 1) of the observations does not exceed: as Prometheus'
    /// `histogram_quantile`, linear within a bucket, of which the first begins at 0. Nil where nothing was observed or
    /// `q` is no share. What lies beyond the last bound is said to lie on it.
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
