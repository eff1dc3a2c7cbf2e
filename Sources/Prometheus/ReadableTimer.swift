// SPDX-License-Identifier: Apache-2.0

import CoreMetrics

/// A timer of a ``PrometheusRegistry`` whose distribution the program can read.
package struct ReadableTimer {
    private let registry: PrometheusRegistry
    private let handler: any TimerHandler

    /// - Parameters:
    ///   - name: the name of a histogram family in the registry's catalogue.
    ///   - labels: all labels of the family, with their values.
    package init(_ name: String, labels: [(String, String)], in registry: PrometheusRegistry) {
        self.registry = registry
        handler = registry.makeTimer(label: name, dimensions: labels)
    }

    /// Records a duration.
    package func record(_ duration: Duration) {
        let (seconds, attoseconds) = duration.components
        handler.recordNanoseconds(min(max(seconds, 0), 9_000_000_000) * 1_000_000_000 + attoseconds / 1_000_000_000)
    }

    /// The distribution of all durations; empty if the family has no room for this series.
    package var snapshot: HistogramSnapshot {
        guard let series = handler as? HistogramSeries, case .histogram(let snapshot)? = series.reading else {
            return HistogramSnapshot(bounds: [])
        }
        return snapshot
    }

    /// Removes the series.
    package func destroy() { registry.destroyTimer(handler) }
}
