// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// The series of one family, up to its ``MetricFamily/maximumSeries``.
final class FamilyTable: Sendable {
    let family: MetricFamily
    /// The index of the family in the catalogue.
    private let number: Int
    private let table = Mutex<[[String]: any Series]>([:])

    init(_ family: MetricFamily, number: Int) {
        self.family = family
        self.number = number
    }

    /// Returns the series with these label values, creating it if necessary, or the reason why there is none.
    /// - Parameter make: creates the series, or returns `nil` if the family has another kind.
    func series<Wanted: Series>(
        of values: [String], make: (MetricFamily.Kind, SeriesID) -> Wanted?
    ) -> Result<Wanted, DroppedSamples.Reason> {
        table.withLock { table in
            if let known = table[values] { return (known as? Wanted).map { .success($0) } ?? .failure(.kind) }
            guard let new = make(family.kind, SeriesID(family: number, values: values)) else { return .failure(.kind) }
            guard table.count < family.maximumSeries else { return .failure(.series) }
            table[values] = new
            return .success(new)
        }
    }

    /// Adds a series that calls `fetch` for its value, replacing an existing one with the same label values. Returns
    /// `false` if the family already has its maximum of series.
    func setCallback(_ values: [String], fetch: @escaping @Sendable () -> Double?) -> Bool {
        table.withLock { table in
            guard table[values] != nil || table.count < family.maximumSeries else { return false }
            table[values] = CallbackSeries(SeriesID(family: number, values: values), fetch: fetch)
            return true
        }
    }

    /// Removes a series, unless another has replaced it.
    func remove(_ series: any Series) {
        table.withLock { table in
            if table[series.place.values] === series { table[series.place.values] = nil }
        }
    }

    /// The values of all series, in no particular order. They are read after the lock is released, because a fetch
    /// closure may call any code.
    var readings: [(values: [String], reading: SeriesValue)] {
        table.withLock { Array($0.values) }.compactMap { series in
            series.reading.map { (series.place.values, $0) }
        }
    }

    /// The series with exactly these label values.
    subscript(values: [String]) -> (any Series)? { table.withLock { $0[values] } }
}
