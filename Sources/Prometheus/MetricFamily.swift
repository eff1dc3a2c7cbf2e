// SPDX-License-Identifier: Apache-2.0

/// What a metric is called, what it is and how large it may grow: one entry of the catalogue that a
/// ``PrometheusRegistry`` is made with. The lines `# HELP` and `# TYPE` come from it.
package struct MetricFamily: Sendable, Equatable {
    /// What the figures of a family are.
    package enum Kind: Sendable, Equatable {
        /// A figure that only grows; its name ends in `_total`.
        case counter
        /// A figure that goes up and down, or the constant 1 of a family that ends in `_info`.
        case gauge
        /// How many observations were at most as large as each of these upper bounds; `+Inf` is understood.
        case histogram(buckets: [Double])
    }

    /// As on the wire: base units, `_total` after a counter, `_seconds` after a duration.
    package let name: String
    package let kind: Kind
    /// One sentence for people.
    package let help: String
    /// The labels that each series has, in the order in which they are written.
    package let labels: [String]
    /// More series than this are not kept.
    package let maximumSeries: Int

    /// A label's value may be this long, in bytes of UTF-8.
    package static let maximumValueLength = 256

    /// - Parameters: as the properties of the same names.
    package init(_ name: String, _ kind: Kind, help: String, labels: [String] = [], maximumSeries: Int = 1) {
        self.name = name
        self.kind = kind
        self.help = help
        self.labels = labels
        self.maximumSeries = maximumSeries
    }

    /// The values in the order of ``labels``; nil where `dimensions` has other labels, or a value that is too long.
    func values(of dimensions: some Collection<(String, String)>) -> [String]? {
        // As many as there are labels, and each label among them: so there is none twice.
        guard dimensions.count == labels.count else { return nil }
        var values: [String] = []
        values.reserveCapacity(labels.count)
        for label in labels {
            guard let value = dimensions.first(where: { $0.0 == label })?.1,
                value.utf8.count <= Self.maximumValueLength
            else { return nil }
            values.append(value)
        }
        return values
    }

    /// Whether a series with these values has all labels of `wanted`, with the same values.
    func matches(_ values: [String], _ wanted: [String: String]) -> Bool {
        wanted.allSatisfy { label, value in
            labels.firstIndex(of: label).map { values[$0] == value } ?? false
        }
    }
}
