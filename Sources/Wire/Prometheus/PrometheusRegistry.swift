// SPDX-License-Identifier: Apache-2.0

/// Holds metrics in memory and writes them in Prometheus' text exposition format 0.0.4. A registry and its series belong
/// to one thread.
///
/// The registry holds only the families of its catalogue, each with its labels and up to its maximum of series, so that
/// memory is bounded whatever the program counts. It drops everything else without an error and counts it in
/// `tocsin_metrics_dropped_total{reason=…}`. Two requests for the same metric return the same series.
package final class PrometheusRegistry {
    /// The reason why the registry dropped something. A drop indicates an error in the program: the catalogue and the
    /// instrumented code disagree, or a family has more series than planned.
    enum DropReason: String, CaseIterable {
        /// The catalogue does not contain the metric.
        case name
        /// The catalogue declares the metric with another kind.
        case kind
        /// There are not as many values as the family has labels, or one is too long.
        case labels
        /// The family already has its maximum of series.
        case series
        /// A duration is negative.
        case value
    }

    /// A family and its series by label values.
    struct FamilyTable {
        let family: MetricFamily
        fileprivate(set) var series: [[String]: Series] = [:]

        /// The values of all series, in no particular order.
        var readings: [(values: [String], reading: SeriesValue)] {
            series.compactMap { values, series in series.reading.map { (values, $0) } }
        }
    }

    /// The `Content-Type` of the text that ``expose()`` returns.
    package static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    /// Counts the metrics and recorded values that the registry dropped.
    static let dropped = MetricFamily(
        "tocsin_metrics_dropped_total", .counter,
        help: "Metrics and recorded values that the registry dropped, by reason.",
        labels: ["reason"], maximumSeries: DropReason.allCases.count)

    /// The tables of the families, in the order of the catalogue.
    private var tables: [FamilyTable]
    private let numbers: [String: Int]
    private var drops: [DropReason: Counter] = [:]

    /// Creates a registry.
    /// - Parameter catalogue: the families that the registry holds, in the order in which it writes them. A duplicate name
    ///   is a programming error and traps.
    package init(_ catalogue: [MetricFamily]) {
        tables = (catalogue + [Self.dropped]).map { FamilyTable(family: $0) }
        numbers = Dictionary(uniqueKeysWithValues: tables.enumerated().map { ($1.family.name, $0) })
        for reason in DropReason.allCases {
            drops[reason] = counter(Self.dropped, [reason.rawValue])
        }
    }

    /// The table of the family with this name; `nil` if the catalogue does not contain it.
    func table(_ name: String) -> FamilyTable? { numbers[name].map { tables[$0] } }

    // MARK: Series

    /// Returns a counter of a family of the catalogue. If the catalogue does not contain the family, or has no room for
    /// another series, the counter counts, but is not written; the same holds for ``gauge(_:_:)`` and ``histogram(_:_:)``.
    /// - Parameter values: the values of the family's labels, in their order.
    package func counter(_ family: MetricFamily, _ values: [String] = []) -> Counter {
        series(family, values) { $0 == .counter ? Counter() : nil } ?? Counter()
    }

    /// Returns a gauge of the catalogue.
    package func gauge(_ family: MetricFamily, _ values: [String] = []) -> Gauge {
        series(family, values) { $0 == .gauge ? Gauge() : nil } ?? Gauge()
    }

    /// Returns a histogram of the catalogue.
    package func histogram(_ family: MetricFamily, _ values: [String] = []) -> Histogram {
        let invalid = drops[.value] ?? Counter()
        return series(family, values) { kind -> Histogram? in
            guard case .histogram(let buckets) = kind else { return nil }
            return Histogram(bounds: buckets, invalid: invalid)
        } ?? Histogram(bounds: [], invalid: invalid)
    }

    /// Registers a closure that supplies the value of a counter or gauge whenever it is read.
    /// - Parameter fetch: returns the value, or `nil` if it is not available; must return quickly.
    func registerCallback(_ family: MetricFamily, _ values: [String] = [], fetch: @escaping () -> Double?) {
        let _: Callback? = series(family, values) { kind -> Callback? in
            if case .histogram = kind { nil } else { Callback(fetch) }
        }
    }

    /// Removes a series. It is no longer written; later changes of it have no effect.
    package func remove(_ series: Series) {
        for number in tables.indices {
            guard let place = tables[number].series.firstIndex(where: { $1 === series }) else { continue }
            tables[number].series.remove(at: place)
        }
    }

    /// Returns the series with these values of its labels, and creates it if necessary. Counts a drop and returns `nil`
    /// if the registry does not hold such a series.
    /// - Parameter make: creates the series, or returns `nil` if the family has another kind.
    private func series<Wanted: Series>(
        _ family: MetricFamily, _ values: [String], make: (MetricFamily.Kind) -> Wanted?
    ) -> Wanted? {
        guard let number = numbers[family.name] else { return drop(.name) }
        guard family.accepts(values) else { return drop(.labels) }
        if let known = tables[number].series[values] { return (known as? Wanted) ?? drop(.kind) }
        guard let new = make(family.kind) else { return drop(.kind) }
        guard tables[number].series.count < family.maximumSeries else { return drop(.series) }
        tables[number].series[values] = new
        return new
    }

    private func drop<Wanted>(_ reason: DropReason) -> Wanted? {
        drops[reason]?.increment()
        return nil
    }

    // MARK: Output

    /// Returns all metrics in the text exposition format: families in the order of the catalogue, without those that have no
    /// series, and series in the order of their label values.
    package func expose() -> [UInt8] {
        var text = ExpositionText()
        for table in tables {
            let readings = table.readings.sorted { $0.values.lexicographicallyPrecedes($1.values) }
            if !readings.isEmpty { text.family(table.family, readings) }
        }
        return text.bytes
    }
}
