// SPDX-License-Identifier: Apache-2.0

/// Writes Prometheus' text exposition format 0.0.4.
struct ExpositionText {
    private(set) var bytes: [UInt8] = []

    /// Appends a family with its series, also under its former name.
    mutating func family(_ family: MetricFamily, _ series: [(values: [String], reading: SeriesValue)]) {
        for name in [family.name, family.formerName].compactMap(\.self) {
            header(of: family, named: name)
            for one in series { self.series(of: family, named: name, values: one.values, one.reading) }
        }
    }

    private mutating func header(of family: MetricFamily, named name: String) {
        add("# HELP ", name, " ")
        addEscaped(family.help, quotes: false)
        let kind =
            switch family.kind {
            case .counter: " counter\n"
            case .gauge: " gauge\n"
            case .histogram: " histogram\n"
            }
        add("\n# TYPE ", name, kind)
    }

    /// Appends the lines of one series.
    private mutating func series(
        of family: MetricFamily, named name: String, values: [String], _ reading: SeriesValue
    ) {
        switch reading {
        case .number(let value): sample(of: family, name, values, Self.number(value))
        case .histogram(let histogram):
            var cumulative: UInt64 = 0
            for (bucket, count) in histogram.counts.enumerated() {
                cumulative += count
                let bound = bucket < histogram.bounds.count ? histogram.bounds[bucket] : .infinity
                sample(of: family, "\(name)_bucket", values, upTo: Self.number(bound), cumulative.description)
            }
            sample(of: family, "\(name)_sum", values, Self.number(histogram.sum))
            sample(of: family, "\(name)_count", values, cumulative.description)
        }
    }

    private mutating func sample(
        of family: MetricFamily, _ name: String, _ values: [String], upTo bound: String? = nil, _ number: String
    ) {
        add(name)
        var separator = "{"
        for (label, value) in zip(family.labels, values) {
            add(separator, label, "=\"")
            addEscaped(value, quotes: true)
            separator = "\","
            guard let former = family.formerLabels[label] else { continue }
            add(separator, former, "=\"")
            addEscaped(value, quotes: true)
        }
        if let bound {
            add(separator, "le=\"", bound)
            separator = "\","
        }
        add(separator == "{" ? " " : "\"} ", number, "\n")
    }

    private mutating func add(_ one: String, _ two: String = "", _ three: String = "") {
        bytes.append(contentsOf: one.utf8)
        bytes.append(contentsOf: two.utf8)
        bytes.append(contentsOf: three.utf8)
    }

    /// Appends a text with backslashes and line feeds escaped, and quotes too if `quotes` is set.
    private mutating func addEscaped(_ text: String, quotes: Bool) {
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\\"): add("\\", "\\")
            case UInt8(ascii: "\n"): add("\\", "n")
            case UInt8(ascii: "\"") where quotes: add("\\", "\"")
            default: bytes.append(byte)
            }
        }
    }

    /// Returns the shortest text that parses as the same number, without a fraction for whole numbers.
    static func number(_ value: Double) -> String {
        guard value.isFinite else { return value.isNaN ? "NaN" : value > 0 ? "+Inf" : "-Inf" }
        // A Double represents every whole number below 2^53 exactly.
        guard value.magnitude < 0x1p53, let whole = Int64(exactly: value) else { return value.description }
        return whole.description
    }
}
