// SPDX-License-Identifier: Apache-2.0

/// The declaration of a metric: one entry of the catalogue of a ``PrometheusRegistry``, which writes the lines `# HELP`
/// and `# TYPE` from it.
package struct MetricFamily: Sendable, Equatable {
    /// The kind of a metric.
    package enum Kind: Sendable, Equatable {
        /// A value that only increases; the name ends in `_total`.
        case counter
        /// A value that can go up and down, or the constant 1 of a family whose name ends in `_info`.
        case gauge
        /// A distribution in buckets with these inclusive upper bounds; the bucket `+Inf` is added.
        case histogram(buckets: [Double])
    }

    /// The name as Prometheus sees it: in base units, with `_total` after a counter and `_seconds` after a duration.
    package let name: String
    package let kind: Kind
    /// One sentence of help for people.
    package let help: String
    /// The labels of each series, in the order in which they are written.
    package let labels: [String]
    /// The largest number of series; further ones are dropped.
    package let maximumSeries: Int
    /// The metric's name in an earlier release, under which it is written a second time; `nil` if the name has not
    /// changed.
    package let formerName: String?
    /// The names of labels in an earlier release, by their present names. Each is written a second time under the
    /// earlier name, with the same value.
    package let formerLabels: [String: String]

    /// The largest length of a label's value, in bytes of UTF-8.
    package static let maximumValueLength = 256

    /// Creates an entry of the catalogue.
    package init(
        _ name: String, _ kind: Kind, help: String, labels: [String] = [], maximumSeries: Int = 1,
        formerName: String? = nil, formerLabels: [String: String] = [:]
    ) {
        self.name = name
        self.kind = kind
        self.help = help
        self.labels = labels
        self.maximumSeries = maximumSeries
        self.formerName = formerName
        self.formerLabels = formerLabels
    }

    /// Whether these may be the values of ``labels``.
    func accepts(_ values: [String]) -> Bool {
        values.count == labels.count && values.allSatisfy { $0.utf8.count <= Self.maximumValueLength }
    }
}
