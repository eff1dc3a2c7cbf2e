// SPDX-License-Identifier: Apache-2.0

/// All runs of a row, which have the same parts in the same order.
extension [RowRun] {
    /// The median of a figure over all runs; `nil` if there are none.
    func median(_ value: (RowRun) -> Double) -> Double? {
        let values = map(value).sorted()
        return values.isEmpty ? nil : values[values.count / 2]
    }

    /// The part with the highest median of CPU seconds per second.
    var bottleneck: (name: String, load: Double)? {
        let parts = first?.parts ?? []
        return parts.indices.map { index in
            (name: parts[index].name, load: median { $0.load(of: $0.parts[index]) } ?? 0)
        }.max { $0.load < $1.load }
    }

    /// The median of the CPU seconds of all parts per second.
    var busyCores: Double? { median { run in run.parts.reduce(0) { $0 + run.load(of: $1) } } }
}
