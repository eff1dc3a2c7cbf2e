// SPDX-License-Identifier: Apache-2.0

@testable import Prometheus

extension MetricFamily {
    /// The values in the order of ``labels``; `nil` if these are other labels.
    fileprivate func values(of dimensions: [String: String]) -> [String]? {
        Set(dimensions.keys) == Set(labels) ? labels.compactMap { dimensions[$0] } : nil
    }
}

/// Reads the registry by the names of its metrics. A name that is not in the catalogue has no series.
extension PrometheusRegistry {
    /// Returns the value of a counter or gauge.
    /// - Parameters:
    ///   - name: the name of the family.
    ///   - labels: all labels of the family, with their values.
    /// - Returns: `nil` if there is no such series.
    package func value(_ name: String, labels: [String: String] = [:]) -> Double? {
        guard let table = table(name), let values = table.family.values(of: labels),
            case .number(let value)? = table.series[values]?.reading
        else { return nil }
        return value
    }

    /// Returns the sum of a family's counters or gauges.
    /// - Parameters:
    ///   - name: the name of the family.
    ///   - labels: selects the series that have these labels with these values.
    /// - Returns: 0 if there is no such series.
    package func sum(_ name: String, where labels: [String: String] = [:]) -> Double {
        figures(name, labels).reduce(0) { $0 + $1.value }
    }

    /// Returns the sums of a family's counters or gauges, grouped by the values of one label.
    /// - Parameters:
    ///   - name: the name of the family.
    ///   - label: the label by whose values the sums are grouped.
    ///   - labels: selects the series that have these labels with these values.
    /// - Returns: an empty dictionary if the family has no such label.
    package func sums(_ name: String, by label: String, where labels: [String: String] = [:]) -> [String: Double] {
        guard let index = table(name)?.family.labels.firstIndex(of: label) else { return [:] }
        return figures(name, labels).reduce(into: [:]) { $0[$1.values[index], default: 0] += $1.value }
    }

    /// Returns the sum of a family's histograms.
    /// - Parameters:
    ///   - name: the name of the family.
    ///   - labels: selects the series that have these labels with these values.
    /// - Returns: `nil` if there is no such series.
    package func snapshot(_ name: String, where labels: [String: String] = [:]) -> HistogramSnapshot? {
        readings(name, labels).reduce(nil) { sum, series in
            guard case .histogram(let histogram) = series.reading else { return sum }
            return sum.map { $0 + histogram } ?? histogram
        }
    }

    /// Estimates the `q`-quantile of a family's observations since the start of the process; see
    /// ``HistogramSnapshot/quantile(_:)``.
    /// - Returns: `nil` if there are no observations or `q` is not in 0 to 1.
    package func quantile(_ q: Double, of name: String, where labels: [String: String] = [:]) -> Double? {
        snapshot(name, where: labels)?.quantile(q)
    }

    private func readings(_ name: String, _ labels: [String: String]) -> [(values: [String], reading: SeriesValue)] {
        guard let table = table(name) else { return [] }
        return table.readings.filter { series in
            labels.allSatisfy { label, value in
                table.family.labels.firstIndex(of: label).map { series.values[$0] == value } ?? false
            }
        }
    }

    private func figures(_ name: String, _ labels: [String: String]) -> [(values: [String], value: Double)] {
        readings(name, labels).compactMap { values, reading in
            guard case .number(let value) = reading else { return nil }
            return (values, value)
        }
    }
}

extension HistogramSnapshot {
    /// Adds two histograms with the same bounds.
    package static func + (one: Self, other: Self) -> Self {
        var both = one
        for bucket in both.counts.indices { both.counts[bucket] += other.counts[bucket] }
        both.sum += other.sum
        return both
    }
}
