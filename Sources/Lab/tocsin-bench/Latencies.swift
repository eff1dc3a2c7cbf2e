// SPDX-License-Identifier: Apache-2.0

import Histogram
import Time

/// A histogram of latencies in microseconds, with three significant digits.
struct Latencies {
    private var histogram = Histogram<UInt64>(
        highestTrackableValue: 120_000_000, numberOfSignificantValueDigits: .three)

    mutating func record(_ duration: Duration) { histogram.record(UInt64(max(duration.milliseconds * 1000, 1))) }
    mutating func record(microseconds: UInt64) { histogram.record(max(microseconds, 1)) }
    var p50: Double { Double(histogram.valueAtPercentile(50)) }
    var p99: Double { Double(histogram.valueAtPercentile(99)) }
}
