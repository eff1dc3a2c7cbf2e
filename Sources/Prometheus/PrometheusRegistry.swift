// SPDX-License-Identifier: Apache-2.0

import CoreMetrics

/// Holds metrics in memory and writes them in Prometheus' text exposition format 0.0.4.
///
/// The registry holds only the families of its catalogue, each with its labels and up to its maximum of series, so that
/// memory is bounded whatever the program counts. It drops everything else without an error and counts it in
/// `tocsin_metrics_dropped_total{reason=…}`.
///
/// A `Counter` or `FloatingPointCounter` becomes a counter, a `Meter` or `Gauge` a gauge, a `Timer` (in seconds) or
/// aggregating `Recorder` a histogram. Two requests for the same metric return the same series.
package final class PrometheusRegistry: MetricsFactory, Sendable {
    /// The tables of the families, in the order of the catalogue.
    let families: [FamilyTable]
    private let numbers: [String: Int]
    private let drops = DroppedSamples()

    /// Creates a registry.
    /// - Parameter catalogue: the families that the registry holds, in the order in which it writes them. An invalid
    ///   catalogue (such as one with a duplicate name, a counter whose name does not end in `_total`, or buckets that are
    ///   not in ascending order) is a programming error and traps.
    package init(_ catalogue: [MetricFamily]) {
        let all = catalogue + [DroppedSamples.family]
        let flaw = MetricFamily.flaw(in: all)
        precondition(flaw == nil, "invalid catalogue of metrics: \(flaw ?? "")")
        families = all.enumerated().map { FamilyTable($1, number: $0) }
        numbers = Dictionary(uniqueKeysWithValues: all.enumerated().map { ($1.name, $0) })
        for reason in DroppedSamples.Reason.allCases {
            registerCallback(DroppedSamples.family.name, labels: ["reason": reason.rawValue]) { [drops] in
                Double(drops[reason])
            }
        }
    }

    /// The table of the family with this name; `nil` if the catalogue does not contain it.
    func table(_ name: String) -> FamilyTable? { numbers[name].map { families[$0] } }

    /// Registers a closure that supplies the value of a counter or gauge whenever it is read. Replaces an existing series
    /// with the same labels.
    /// - Parameters:
    ///   - name: the name of the family.
    ///   - labels: all labels of the family, with their values.
    ///   - fetch: returns the value, or `nil` if it is not available. The registry calls it on the reading thread, without
    ///     holding a lock; it must return quickly.
    package func registerCallback(
        _ name: String, labels: [String: String] = [:], fetch: @escaping @Sendable () -> Double?
    ) {
        guard let table = table(name) else { return drops.count(.name) }
        if case .histogram = table.family.kind { return drops.count(.kind) }
        guard let values = table.family.values(of: labels.map { ($0, $1) }) else { return drops.count(.labels) }
        if !table.setCallback(values, fetch: fetch) { drops.count(.series) }
    }

    // MARK: MetricsFactory

    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        counter(label, dimensions) ?? NOOPMetricsHandler.instance
    }

    package func makeFloatingPointCounter(
        label: String, dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler {
        counter(label, dimensions) ?? NOOPMetricsHandler.instance
    }

    package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        gauge(label, dimensions) ?? NOOPMetricsHandler.instance
    }

    package func makeRecorder(
        label: String, dimensions: [(String, String)], aggregate: Bool
    ) -> any RecorderHandler {
        let recorder: (any RecorderHandler)? = aggregate ? histogram(label, dimensions) : gauge(label, dimensions)
        return recorder ?? NOOPMetricsHandler.instance
    }

    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        histogram(label, dimensions) ?? NOOPMetricsHandler.instance
    }

    // A destroyed series no longer appears in the output; later increments of it have no effect.

    package func destroyCounter(_ handler: any CounterHandler) { remove(handler) }

    package func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) { remove(handler) }

    package func destroyMeter(_ handler: any MeterHandler) { remove(handler) }

    package func destroyRecorder(_ handler: any RecorderHandler) { remove(handler) }

    package func destroyTimer(_ handler: any TimerHandler) { remove(handler) }

    // MARK: Series

    private func counter(_ name: String, _ dimensions: [(String, String)]) -> CounterSeries? {
        series(name, dimensions) { kind, place in
            kind == .counter ? CounterSeries(place, drops: drops) : nil
        }
    }

    private func gauge(_ name: String, _ dimensions: [(String, String)]) -> GaugeSeries? {
        series(name, dimensions) { kind, place in
            kind == .gauge ? GaugeSeries(place) : nil
        }
    }

    private func histogram(_ name: String, _ dimensions: [(String, String)]) -> HistogramSeries? {
        series(name, dimensions) { kind, place in
            guard case .histogram(let buckets) = kind else { return nil }
            return HistogramSeries(place, buckets: buckets, drops: drops)
        }
    }

    /// Returns the series with these labels; counts a drop and returns `nil` if there is none.
    private func series<Wanted: Series>(
        _ name: String, _ dimensions: [(String, String)], make: (MetricFamily.Kind, SeriesID) -> Wanted?
    ) -> Wanted? {
        switch find(name, dimensions, make) {
        case .success(let series): return series
        case .failure(let reason):
            drops.count(reason)
            return nil
        }
    }

    private func find<Wanted: Series>(
        _ name: String, _ dimensions: [(String, String)], _ make: (MetricFamily.Kind, SeriesID) -> Wanted?
    ) -> Result<Wanted, DroppedSamples.Reason> {
        guard let table = table(name) else { return .failure(.name) }
        guard let values = table.family.values(of: dimensions) else { return .failure(.labels) }
        return table.series(of: values, make: make)
    }

    private func remove(_ handler: any Sendable) {
        guard let series = handler as? any Series, families.indices.contains(series.place.family) else { return }
        families[series.place.family].remove(series)
    }
}
