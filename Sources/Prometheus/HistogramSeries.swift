// SPDX-License-Identifier: Apache-2.0

import CoreMetrics
import Synchronization

/// A series that holds a distribution. It stores the durations of a `Timer` in seconds.
final class HistogramSeries: Series, TimerHandler, RecorderHandler {
    let place: SeriesID
    private let drops: DroppedSamples
    private let bounds: [Double]
    /// One lock protects all of it, so that a scrape never sees an observation in its bucket but not in the sum.
    private let state: Mutex<HistogramSnapshot>

    init(_ place: SeriesID, buckets: [Double], drops: DroppedSamples) {
        self.place = place
        self.drops = drops
        bounds = buckets
        state = Mutex(HistogramSnapshot(bounds: buckets))
    }

    var reading: SeriesValue? { .histogram(state.withLock { $0 }) }

    func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1_000_000_000) }

    /// Does nothing, because durations are always in seconds.
    func preferDisplayUnit(_ unit: TimeUnit) {}

    func record(_ value: Int64) { record(Double(value)) }

    func record(_ value: Double) {
        // NaN would make the sum NaN permanently, and a negative value would decrease it.
        guard value >= 0, value.isFinite else { return drops.count(.value) }
        let bucket = bounds.firstIndex { value <= $0 } ?? bounds.count
        state.withLock { $0.record(value, bucket: bucket) }
    }
}
