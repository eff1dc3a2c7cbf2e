// SPDX-License-Identifier: Apache-2.0

extension PrometheusRegistry {
    /// The `Content-Type` of the text that ``expose()`` returns.
    package static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    /// Returns all metrics in the text exposition format: families in the order of the catalogue, without those that have no
    /// series, and series in the order of their label values.
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
