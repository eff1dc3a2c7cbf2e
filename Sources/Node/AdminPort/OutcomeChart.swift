// SPDX-License-Identifier: Apache-2.0

import NodeConfiguration
import Settings

/// A stacked bar chart of final outcomes over time, in SVG. Each outcome has its own colour and pattern.
struct OutcomeChart {
    /// The parts of a bar, from bottom to top.
    enum Part: String, CaseIterable {
        case delivered, retry, rejected, gone

        /// The label in legend and tooltips.
        var label: String {
            switch self {
            case .delivered: "delivered"
            case .retry: "told to retry"
            case .rejected: "rejected"
            case .gone: "gone"
            }
        }

        func count(in bucket: NodeSnapshot.Bucket) -> Int {
            switch self {
            case .delivered: bucket.delivered
            case .retry: bucket.retry
            case .rejected: bucket.rejected
            case .gone: bucket.gone
            }
        }
    }

    /// The size in SVG units; small, so that the text stays readable on a phone.
    private static let (width, height) = (420.0, 170.0)
    private static let (left, right, top, bottom) = (38.0, 12.0, 10.0, 22.0)

    /// An identifier without spaces, unique among the charts of a page.
    let name: String
    let title: String
    let buckets: [NodeSnapshot.Bucket]
    /// The width of a bucket in seconds.
    let width: Int64
    /// When the node was started, Unix times in seconds.
    var starts: [Int64] = []

    private var totals: [(part: Part, count: Int)] {
        Part.allCases.map { part in (part, buckets.reduce(0) { $0 + part.count(in: $1) }) }
    }

    private static func total(_ bucket: NodeSnapshot.Bucket) -> Int {
        Part.allCases.reduce(0) { $0 + $1.count(in: bucket) }
    }

    /// The chart with its legend.
    var html: HTML {
        """
        <figure><svg viewBox="0 0 420 170" role="img" aria-labelledby="\(name)-title \(name)-desc">\
        <title id="\(name)-title">\(title)</title><desc id="\(name)-desc">\(description)</desc>\
        <defs>\(Part.allCases.map(pattern))</defs>\(axes)\(Part.allCases.map(bars))\(buckets.enumerated().map(hint))\(shownStarts.map(mark))\
        </svg><figcaption><ul class="legend">\(totals.map(legend))</ul></figcaption></figure>
        """
    }

    private var description: String {
        guard let busiest = buckets.max(by: { Self.total($0) < Self.total($1) }), Self.total(busiest) > 0 else {
            return "No outcomes in this period.\(startsText)"
        }
        let sums = totals.map { "\(Format.count($0.count)) \($0.part.label)" }.joined(separator: ", ")
        return "\(sums). Peak: \(Format.count(Self.total(busiest))) in the interval from "
            + "\(Format.clock(busiest.start)) UTC.\(startsText)"
    }

    /// The starts of the node in this period.
    private var shownStarts: [Int64] {
        guard let first = buckets.first?.start, let last = buckets.last?.start else { return [] }
        return starts.filter { (first..<last + width).contains($0) }
    }

    private var startsText: String {
        let times = shownStarts.map(Format.clock).joined(separator: ", ")
        return times.isEmpty ? "" : " The node was started at \(times) UTC."
    }

    /// A vertical line at a start of the node.
    private func mark(_ start: Int64) -> HTML {
        let x =
            self.x(0) + (x(buckets.count) - x(0)) * Double(start - buckets[0].start)
            / Double(Int64(buckets.count) * width)
        return """
            <line class="start" x1="\(x)" x2="\(x)" y1="\(Self.top)" y2="\(Self.height - Self.bottom)">\
            <title>started at \(Format.clock(start)) UTC</title></line>\
            <text x="\(x + 3)" y="\(Self.top + 8)">started</text>
            """
    }

    // MARK: Scale

    /// The smallest of 2, 4, 10, 20, 40, 100, … that is not less than the highest bar. Its half is also a whole number.
    private var ceiling: Int {
        let highest = buckets.map(Self.total).max() ?? 0
        var ceiling = 2
        var steps = [2.0, 2.5, 2.0]
        while ceiling < highest, ceiling < .max / 4 {
            ceiling = Int(Double(ceiling) * steps[0])
            steps.append(steps.removeFirst())
        }
        return ceiling
    }

    private func x(_ index: Int) -> Double {
        Self.left + (Self.width - Self.left - Self.right) * Double(index) / Double(max(1, buckets.count))
    }

    private func y(_ count: Int) -> Double {
        let floor = Self.height - Self.bottom
        return floor - (floor - Self.top) * Double(count) / Double(ceiling)
    }

    // MARK: Parts

    private var axes: HTML {
        let (ceiling, labels) = (self.ceiling, Self.height - 6)
        var axes: HTML = ""
        for count in [0, ceiling / 2, ceiling] {
            let height = y(count)
            axes += """
                <line class="grid" x1="\(Self.left)" x2="\(Self.width - Self.right)" y1="\(height)" y2="\(height)"/>\
                <text x="\(Self.left - 5)" y="\(height + 4)" text-anchor="end">\(Self.short(count))</text>
                """
        }
        // Four labels; "now" marks the end of the last interval.
        for quarter in 0..<4 {
            let index = quarter * buckets.count / 4
            guard index < buckets.count else { continue }
            axes += "<text x=\"\(x(index))\" y=\"\(labels)\">\(Format.clock(buckets[index].start))</text>"
        }
        return axes + "<text x=\"\(Self.width - Self.right)\" y=\"\(labels)\" text-anchor=\"end\">now</text>"
    }

    /// All bars of one outcome in a single path, which keeps the page small.
    private func bars(_ part: Part) -> HTML {
        let gap = buckets.count > 100 ? 0.4 : 1
        var path: HTML = ""
        for (index, bucket) in buckets.enumerated() {
            let count = part.count(in: bucket)
            guard count > 0 else { continue }
            let below = Part.allCases.prefix { $0 != part }.reduce(0) { $0 + $1.count(in: bucket) }
            let (bottom, top) = (y(below), y(below + count))
            let (start, end) = (x(index), x(index + 1) - gap)
            path += "M\(start) \(bottom)V\(top)H\(end)V\(bottom)z"
        }
        return path.text.isEmpty ? "" : "<path fill=\"url(#\(name)-\(part.rawValue))\" d=\"\(path)\"/>"
    }

    /// The tooltip of a bar.
    private func hint(_ index: Int, _ bucket: NodeSnapshot.Bucket) -> HTML {
        guard Self.total(bucket) > 0 else { return "" }
        let counts = Part.allCases.filter { $0.count(in: bucket) > 0 }
            .map { "\(Format.count($0.count(in: bucket))) \($0.label)" }.joined(separator: ", ")
        return """
            <rect class="hint" x="\(x(index))" y="\(Self.top)" width="\(x(index + 1) - x(index))" \
            height="\(Self.height - Self.top - Self.bottom)">\
            <title>\(Format.clock(bucket.start))–\(Format.clock(bucket.start + width)): \(counts)</title></rect>
            """
    }

    private func pattern(_ part: Part) -> HTML {
        let marks: HTML =
            switch part {
            case .delivered: ""
            case .retry: #"<path class="ink" d="M0 5L5 0M-1 1L1 -1M4 6L6 4"/>"#
            case .rejected: #"<path class="ink" d="M0 5L5 0M0 0L5 5"/>"#
            case .gone: #"<circle class="dot" cx="2.5" cy="2.5" r="1.1"/>"#
            }
        return """
            <pattern id="\(name)-\(part.rawValue)" width="5" height="5" patternUnits="userSpaceOnUse">\
            <rect class="\(part.rawValue)" width="5" height="5"/>\(marks)</pattern>
            """
    }

    private func legend(_ part: Part, _ count: Int) -> HTML {
        """
        <li><svg class="swatch" viewBox="0 0 14 14" aria-hidden="true"><rect width="14" height="14" rx="2" \
        fill="url(#\(name)-\(part.rawValue))"/></svg><strong>\(Format.count(count))</strong> \(part.label)</li>
        """
    }

    /// A label of the vertical axis, e.g. `1,500`, `20k` or `14M`.
    private static func short(_ count: Int) -> String {
        if count >= 10_000_000 { return "\(Format.count(count / 1_000_000))M" }
        return count >= 10_000 ? "\(Format.count(count / 1000))k" : Format.count(count)
    }
}
