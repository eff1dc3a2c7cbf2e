// SPDX-License-Identifier: Apache-2.0

extension MetricFamily {
    /// What makes this family impossible to write or to keep; nil where nothing does.
    var flaw: String? {
        guard Self.isName(name, colons: true) else { return "\"\(name)\" is no name for a metric" }
        guard maximumSeries > 0 else { return "\(name) may have no series" }
        for label in labels where !Self.isName(label, colons: false) || label.hasPrefix("__") {
            return "\(name): \"\(label)\" is no name for a label"
        }
        guard Set(labels).count == labels.count else { return "\(name) has a label twice" }
        switch kind {
        case .counter:
            return name.hasSuffix("_total") ? nil : "\(name) is a counter, whose name ends in _total"
        case .gauge:
            return name.hasSuffix("_total") ? "\(name) is a gauge, whose name does not end in _total" : nil
        case .histogram(let buckets):
            guard !labels.contains("le") else { return "\(name): the label le belongs to its buckets" }
            guard let first = buckets.first, first >= 0, buckets.allSatisfy(\.isFinite) else {
                return "\(name) needs buckets that are finite and not negative"
            }
            guard zip(buckets, buckets.dropFirst()).allSatisfy(<) else { return "\(name)'s buckets do not ascend" }
            return nil
        }
    }

    /// The first flaw of a whole catalogue; nil where it has none.
    static func flaw(in catalogue: [MetricFamily]) -> String? {
        var taken: Set<String> = []
        for family in catalogue {
            if let flaw = family.flaw { return flaw }
            for name in family.writtenNames where !taken.insert(name).inserted {
                return "\(family.name): the name \(name) is taken"
            }
        }
        return nil
    }

    /// Each name that a line of this family may begin with, and its own.
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
