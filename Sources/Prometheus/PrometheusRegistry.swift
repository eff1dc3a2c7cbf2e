// SPDX-License-Identifier: Apache-2.0

import CoreMetrics

/// Keeps figures in memory and writes them as Prometheus reads them (text exposition format 0.0.4).
///
/// Only what the catalogue names is kept, with the labels and no more series than it says there: memory is bounded
/// whatever is counted. The rest is counted in `tocsin_metrics_dropped_total{reason=…}`, and never an error.
///
/// A `Counter` or `FloatingPointCounter` is kept as a counter, a `Meter` or `Gauge` as a gauge, a `Timer` (in seconds)
/// or aggregating `Recorder` as a histogram. Whoever asks twice for the same metric gets the same series.
package final class PrometheusRegistry: MetricsFactory, Sendable {
    /// In the catalogue's order.
    let families: [FamilyTable]
    private let numbers: [String: Int]
    private let drops = DroppedSamples()

    /// - Parameter catalogue: what is kept, in the order in which it is written. It is part of the program: one that
    ///   cannot be written (a name twice, a counter that does not end in `_total`, buckets that do not ascend) traps.
    package init(_ catalogue: [MetricFamily]) {
        let all = catalogue + [DroppedSamples.family]
        let flaw = MetricFamily.flaw(in: all)
        precondition(flaw == nil, "the catalogue of metrics: \(flaw ?? "")")
        families = all.enumerated().map { FamilyTable($1, number: $0) }
        numbers = Dictionary(uniqueKeysWithValues: all.enumerated().map { ($1.name, $0) })
        for reason in DroppedSamples.Reason.allCases {
            collect(DroppedSamples.family.name, labels: ["reason": reason.rawValue]) { [drops] in Double(drops[reason])
            }
        }
    }

    /// The family of this name; nil where the catalogue has none.
    func table(_ name: String) -> FamilyTable? { numbers[name].map { families[$0] } }

    /// Has a counter's or gauge's figure fetched whenever it is looked at, in the place of what was kept for it.
    /// - Parameters:
    ///   - name: the family's.
    ///   - labels: all labels of the family, with their values.
    ///   - fetch: gives the figure, or nil where there is none to be had. Is called on the thread that looks, with no
    ///     lock held; it should take no time.
    package func collect(_ name: String, labels: [String: String] = [:], fetch: @escaping @Sendable () -> Double?) {
        guard let table = table(name) else { return drops.count(.name) }
        if case .histogram = table.family.kind { return drops.count(.kind) }
        guard let values = table.family.values(of: labels.map { ($0, $1) }) else { return drops.count(.labels) }
        if !table.put(values, fetch: fetch) { drops.count(.series) }
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

    // A series that is destroyed is written no more; what is yet counted on it goes nowhere.

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

    /// The series that is wanted; nil, which is counted, where it is not kept.
    private func series<Wanted: Series>(
        _ name: String, _ dimensions: [(String, String)], make: (MetricFamily.Kind, Place) -> Wanted?
    ) -> Wanted? {
        switch find(name, dimensions, make) {
        case .success(let series): return series
        case .failure(let reason):
            drops.count(reason)
            return nil
        }
    }

    private func find<Wanted: Series>(
        _ name: String, _ dimensions: [(String, String)], _ make: (MetricFamily.Kind, Place) -> Wanted?
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
