// SPDX-License-Identifier: Apache-2.0

/// How a figure changes over a long run.
struct Trend {
    private var samples: [(x: Double, value: Double)] = []

    /// Adds a figure.
    /// - Parameter x: the time or the work since the beginning of the run.
    mutating func add(_ value: Double, at x: Double) { samples.append((x, value)) }

    /// The samples whose time, or work done, is at least this.
    func suffix(from x: Double) -> Trend {
        var trend = Trend()
        trend.samples = samples.filter { $0.x >= x }
        return trend
    }

    /// The median; 0 without samples.
    var median: Double { Self.median(samples.map(\.value)) }

    /// The growth per unit of `x`, by least squares; 0 with fewer than two samples.
    var slope: Double {
        guard samples.count > 1 else { return 0 }
        let meanX = samples.map(\.x).reduce(0, +) / Double(samples.count)
        let meanY = samples.map(\.value).reduce(0, +) / Double(samples.count)
        var (above, below) = (0.0, 0.0)
        for sample in samples {
            above += (sample.x - meanX) * (sample.value - meanY)
            below += (sample.x - meanX) * (sample.x - meanX)
        }
        return below == 0 ? 0 : above / below
    }

    /// By how much the median of the last third exceeds that of the first: a leak raises it, an outlier does not.
    var growth: Double {
        let third = samples.count / 3
        return Self.median(samples.suffix(third).map(\.value)) - Self.median(samples.prefix(third).map(\.value))
    }

    private static func median(_ values: [Double]) -> Double {
        values.isEmpty ? 0 : values.sorted()[values.count / 2]
    }
}
