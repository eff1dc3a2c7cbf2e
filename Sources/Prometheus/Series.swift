// SPDX-License-Identifier: Apache-2.0

/// One series of a family: what holds its figure. Whoever counts keeps the series, and needs no look-up.
protocol Series: AnyObject, Sendable {
    var place: Place { get }
    /// The figure at this moment; nil where there is none.
    var reading: Reading? { get }
}

/// Where a series stands.
struct Place: Sendable {
    /// The number of its family in the catalogue.
    let family: Int
    /// Its labels' values, in the family's order.
    let values: [String]
}

/// The figure of a series.
enum Reading {
    case number(Double)
    case histogram(HistogramSnapshot)
}

/// A series whose figure is fetched when it is looked at.
final class FetchedSeries: Series {
    let place: Place
    private let fetch: @Sendable () -> Double?

    init(_ place: Place, fetch: @escaping @Sendable () -> Double?) {
        self.place = place
        self.fetch = fetch
    }

    var reading: Reading? { fetch().map { .number($0) } }
}
