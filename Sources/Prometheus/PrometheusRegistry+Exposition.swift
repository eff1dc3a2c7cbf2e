// SPDX-License-Identifier: Apache-2.0

extension PrometheusRegistry {
    /// The `Content-Type` of what ``expose()`` gives.
    package static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    /// All that is kept, as Prometheus reads it: families in the catalogue's order, those without a series left out,
    /// series in the order of their labels' values.
    package func expose() -> [UInt8] {
        var text = ExpositionText()
        for table in families {
            let readings = table.readings.sorted { $0.values.lexicographicallyPrecedes($1.values) }
            if !readings.isEmpty { text.header(of: table.family) }
            for (values, reading) in readings { text.series(of: table.family, values: values, reading) }
        }
        return text.bytes
    }
}
