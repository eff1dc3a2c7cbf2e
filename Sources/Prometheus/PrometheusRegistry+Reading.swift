// SPDX-License-Identifier: Apache-2.0

/// What is kept, for those who show it themselves. A name that is not in the catalogue has no series.
extension PrometheusRegistry {
    /// A counter or gauge.
    /// - Parameter labels: all labels of the family, with their values.
    /// - Returns: nil where there is no such series.
    package func value(_ name: String, labels: [String: String] = [:]) -> Double? {
        guard let table = table(name), let values = table.family.values(of: labels.map { ($0, $1) }),
            case .number(let value)? = table[values]?.reading
        else { return nil }
        return value
    }

    /// A family's counters or gauges added up.
    /// - Parameter labels: only series that have these labels with these values.
    /// - Returns: 0 where there is none.
    package func sum(_ name: String, where labels: [String: String] = [:]) -> Double {
        figures(name, labels).reduce(0) { $0 + $1.value }
    }

    /// A family's counters or gauges added up, for each value of one of its labels.
    /// - Parameters:
    ///   - label: the label by whose values they are told apart.
    ///   - labels: only series that have these labels with these values.
    /// - Returns: empty where the family has no such label.
    package func sums(_ name: String, by label: String, where labels: [String: String] = [:]) -> [String: Double] {
        guard let index = table(name)?.family.labels.firstIndex(of: label) else { return [:] }
        return figures(name, labels).reduce(into: [:]) { $0[$1.values[index], default: 0] += $1.value }
    }

    /// A family's histograms added up.
    /// - Parameter labels: only series that have these labels with these values.
    /// - Returns: nil where there is none.
    package func histogram(_ name: String, where labels: [String: String] = [:]) -> HistogramSnapshot? {
        readings(name, labels).reduce(nil) { sum, series in
            guard case .histogram(let histogram) = series.reading else { return sum }
            return sum.map { $0 + histogram } ?? histogram
        }
    }

    /// An estimate of the value that the share `q` (0 to 1) of a family's observations since the start does not exceed:
    /// ``HistogramSnapshot/quantile(_:)``.
    /// - Returns: nil where nothing was observed.
    package func quantile(_ q: Double, of name: String, where labels: [String: String] = [:]) -> Double? {
        histogram(name, where: labels)?.quantile(q)
    }

    private func readings(_ name: String, _ labels: [String: String]) -> [(values: [String], reading: Reading)] {
        guard let table = table(name) else { return [] }
        return table.readings.filter { table.family.matches($0.values, labels) }
    }

    private func figures(_ name: String, _ labels: [String: String]) -> [(values: [String], value: Double)] {
        readings(name, labels).compactMap { values, reading in
            guard case .number(let value) = reading else { return nil }
            return (values, value)
        }
    }
}
