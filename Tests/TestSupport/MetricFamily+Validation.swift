// SPDX-License-Identifier: Apache-2.0

@testable import Prometheus

/// Checks a catalogue, which is fixed when the program is built.
extension MetricFamily {
    /// The reason why this family is invalid; `nil` if it is valid.
    package var flaw: String? {
        guard Self.isName(name, colons: true) else { return "\"\(name)\" is not a valid metric name" }
        guard maximumSeries > 0 else { return "\(name): maximumSeries must be at least 1" }
        for label in labels where !Self.isName(label, colons: false) || label.hasPrefix("__") {
            return "\(name): \"\(label)\" is not a valid label name"
        }
        guard Set(labels).count == labels.count else { return "\(name): duplicate label" }
        switch kind {
        case .counter:
            return name.hasSuffix("_total") ? nil : "\(name): the name of a counter must end in _total"
        case .gauge:
            return name.hasSuffix("_total") ? "\(name): the name of a gauge must not end in _total" : nil
        case .histogram(let buckets):
            guard !labels.contains("le") else { return "\(name): the label le is reserved for buckets" }
            guard let first = buckets.first, first >= 0, buckets.allSatisfy(\.isFinite) else {
                return "\(name): a histogram needs buckets, which must be finite and not negative"
            }
            guard zip(buckets, buckets.dropFirst()).allSatisfy(<) else {
                return "\(name): the buckets must be in ascending order"
            }
            return nil
        }
    }

    /// The first reason why a catalogue is invalid; `nil` if it is valid.
    package static func flaw(in catalogue: [MetricFamily]) -> String? {
        var taken: Set<String> = []
        for family in catalogue {
            if let flaw = family.flaw { return flaw }
            for name in family.writtenNames where !taken.insert(name).inserted {
                return "\(family.name): the name \(name) is already in use"
            }
        }
        return nil
    }

    /// The family's own name, and the names with which lines of the family begin.
    private var writtenNames: [String] {
        guard case .histogram = kind else { return [name] }
        return [name] + ["_bucket", "_sum", "_count"].map { name + $0 }
    }

    private static func isName(_ name: String, colons: Bool) -> Bool {
        guard let first = name.utf8.first, !(UInt8(ascii: "0")...UInt8(ascii: "9")).contains(first) else {
            return false
        }
        return name.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
                true
            case UInt8(ascii: ":"): colons
            default: false
            }
        }
    }
}
