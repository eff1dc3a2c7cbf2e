// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// The series of one family, never more than it may have.
final class FamilyTable: Sendable {
    let family: MetricFamily
    /// The family's number in the catalogue.
    private let number: Int
    private let table = Mutex<[[String]: any Series]>([:])

    init(_ family: MetricFamily, number: Int) {
        self.family = family
        self.number = number
    }

    /// The series of these values: the one that is there, or a new one. Otherwise why there can be none; `make` gives
    /// nil where the family is of another kind.
    func series<Wanted: Series>(
        of values: [String], make: (MetricFamily.Kind, Place) -> Wanted?
    ) -> Result<Wanted, DroppedSamples.Reason> {
        table.withLock { table in
            if let known = table[values] { return (known as? Wanted).map { .success($0) } ?? .failure(.kind) }
            guard let new = make(family.kind, Place(family: number, values: values)) else { return .failure(.kind) }
            guard table.count < family.maximumSeries else { return .failure(.series) }
            table[values] = new
            return .success(new)
        }
    }

    /// Puts a series that is fetched in the place of whatever is there. False where there is no room for it.
    func put(_ values: [String], fetch: @escaping @Sendable () -> Double?) -> Bool {
        table.withLock { table in
            guard table[values] != nil || table.count < family.maximumSeries else { return false }
            table[values] = FetchedSeries(Place(family: number, values: values), fetch: fetch)
            return true
        }
    }

    /// Forgets a series, unless another has taken its place.
    func remove(_ series: any Series) {
        table.withLock { table in
            if table[series.place.values] === series { table[series.place.values] = nil }
        }
    }

    /// What all series say, in no order. They are asked after the lock is let go: a fetched one may call whom it likes.
    var readings: [(values: [String], reading: Reading)] {
        table.withLock { Array($0.values) }.compactMap { series in
            series.reading.map { (series.place.values, $0) }
        }
    }

    /// The series of exactly these values.
    subscript(values: [String]) -> (any Series)? { table.withLock { $0[values] } }
}
