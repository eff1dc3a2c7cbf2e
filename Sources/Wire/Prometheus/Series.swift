// SPDX-License-Identifier: Apache-2.0

/// One series of a family. Instrumented code holds a reference to its series, so that counting needs no look-up.
package class Series {
    /// The current value; `nil` if it is not available.
    var reading: SeriesValue? { nil }
}

/// The value of a series at one moment.
enum SeriesValue {
    case number(Double)
    case histogram(HistogramSnapshot)
}

/// A series whose value only increases.
package final class Counter: Series {
    package private(set) var count = 0

    override var reading: SeriesValue? { .number(Double(count)) }

    /// Adds an amount; a negative one counts as 0.
    package func increment(by amount: Int = 1) { count += max(0, amount) }
}

/// A series whose value can go up and down.
package final class Gauge: Series {
    private var value = 0.0

    override var reading: SeriesValue? { .number(value) }

    package func set(_ value: Double) { self.value = value }

    package func set(_ value: some BinaryInteger) { self.value = Double(value) }
}

/// A series that holds a distribution of durations, in seconds.
package final class Histogram: Series {
    /// The distribution of all recorded durations.
    package private(set) var snapshot: HistogramSnapshot
    private let invalid: Counter

    /// - Parameter invalid: counts the durations that are not recorded.
    init(bounds: [Double], invalid: Counter) {
        snapshot = HistogramSnapshot(bounds: bounds)
        self.invalid = invalid
    }

    override var reading: SeriesValue? { .histogram(snapshot) }

    /// Records a duration. A negative one would decrease the sum and is dropped.
    package func record(_ duration: Duration) {
        guard duration >= .zero else { return invalid.increment() }
        // Converts both halves separately: to divide 128-bit numbers would take ten times as long.
        let attoseconds = duration.attoseconds
        let (high, low) = (Int64(truncatingIfNeeded: attoseconds >> 64), UInt64(truncatingIfNeeded: attoseconds))
        let seconds = (Double(high) * 0x1p64 + Double(low)) / 1e18
        snapshot.record(seconds, bucket: snapshot.bounds.firstIndex { seconds <= $0 } ?? snapshot.bounds.count)
    }
}

/// A series that calls a closure for its value whenever it is read.
final class Callback: Series {
    private let fetch: () -> Double?

    init(_ fetch: @escaping () -> Double?) { self.fetch = fetch }

    override var reading: SeriesValue? { fetch().map { .number($0) } }
}
