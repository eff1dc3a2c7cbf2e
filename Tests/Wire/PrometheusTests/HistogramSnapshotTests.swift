// SPDX-License-Identifier: Apache-2.0

import StandIns
import TestSupport
import Testing

@testable import Prometheus

@Suite(.tags(.computing)) struct HistogramSnapshotTests {
    /// A histogram with these counts in the buckets of bounds 1, 2, 4 and +Inf.
    private func histogram(_ counts: Int...) -> HistogramSnapshot {
        var histogram = HistogramSnapshot(bounds: [1, 2, 4])
        for (bucket, count) in counts.enumerated() {
            for _ in 0..<count { histogram.record(1, bucket: bucket) }
        }
        return histogram
    }

    @Test func `a quantile is interpolated within its bucket`() {
        let figures: [(HistogramSnapshot, Double, Double?)] = [
            (histogram(0, 0, 0, 0), 0.5, nil), (histogram(4), 0.5, 0.5), (histogram(4), 1, 1), (histogram(4), 0, 0),
            (histogram(0, 0, 4), 0, 2), (histogram(0, 0, 4), 0.5, 3), (histogram(0, 4, 0, 0), 1, 2),
            (histogram(2, 2, 4), 0.5, 2), (histogram(2, 2, 4), 0.75, 3), (histogram(1, 0, 0, 9), 0.05, 0.5),
            (histogram(1, 0, 0, 9), 0.99, 4), (histogram(0, 0, 0, 1), 0, 4), (histogram(4), -0.1, nil),
            (histogram(4), 1.1, nil), (histogram(4), .nan, nil),
        ]
        for (histogram, q, expected) in figures {
            #expect(histogram.quantile(q) == expected, "\(histogram.counts) \(q)")
        }
    }

    @Test
    func `a quantile lies in the bucket of the true value and never falls as q grows`()
        throws
    {
        var generator = SplitMix64(seed: 9)
        let bounds = [0.1, 0.25, 0.5, 1, 2, 4, 8]
        for round in 0..<300 {
            var histogram = HistogramSnapshot(bounds: bounds)
            let values = (0...generator.below(200)).map { _ in generator.unit() * generator.unit() * 8 }.sorted()
            for value in values {
                histogram.record(value, bucket: try #require(bounds.firstIndex { value <= $0 }))
            }
            var last = 0.0
            for step in 1...100 {
                let q = Double(step) / 100
                let estimate = try #require(histogram.quantile(q))
                #expect(estimate >= last, "round \(round), q \(q)")
                last = estimate
                // The true quantile, the value of rank ⌈q · count⌉, lies in the same bucket.
                let rank = min(values.count, max(1, Int((q * Double(values.count)).rounded(.up))))
                let bucket = try #require(bounds.firstIndex { values[rank - 1] <= $0 })
                let start = bucket == 0 ? 0 : bounds[bucket - 1]
                #expect((start...bounds[bucket]).contains(estimate), "round \(round), q \(q)")
            }
        }
    }

    @Test func `since an earlier snapshot only the difference counts`() {
        let earlier = histogram(1, 2, 0, 1)
        let later = histogram(1, 5, 1, 1)
        #expect(later.since(earlier).counts == [0, 3, 1, 0])
        #expect(later.since(earlier).sum == 4)
        #expect((later.since(earlier) + earlier) == later)
        #expect(later.since(later).count == 0)
        #expect(later.since(later).quantile(0.5) == nil)
    }

    @Test func `since a restart the whole snapshot counts`() {
        #expect(histogram(1, 1).since(histogram(0, 2)) == histogram(1, 1))
        #expect(histogram(1, 1).since(HistogramSnapshot(bounds: [1, 2])) == histogram(1, 1))
    }
}
