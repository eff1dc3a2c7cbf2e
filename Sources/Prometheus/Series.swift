// SPDX-License-Identifier: Apache-2.0

/// One series of a family. Instrumented code holds a reference to its series, so that counting needs no look-up.
protocol Series: AnyObject, Sendable {
    var place: SeriesID { get }
    /// The current value; `nil` if it is not available.
    var reading: SeriesValue? { get }
}

/// The identity of a series: its family and label values.
struct SeriesID: Sendable {
    /// The index of the family in the catalogue.
    let family: Int
    /// The label values, in the order of the family's labels.
    let values: [String]
}

/// The value of a series at one moment.
enum SeriesValue {
    case number(Double)
    case histogram(HistogramSnapshot)
}

/// A series that calls a closure for its value whenever it is read.
final class CallbackSeries: Series {
    let place: SeriesID
    private let fetch: @Sendable () -> Double?

    init(_ place: SeriesID, fetch: @escaping @Sendable () -> Double?) {
        self.place = place
        self.fetch = fetch
    }

    var reading: SeriesValue? { fetch().map { .number($0) } }
}
