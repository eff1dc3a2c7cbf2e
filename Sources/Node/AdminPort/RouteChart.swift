// SPDX-License-Identifier: Apache-2.0

import Settings

/// What became of a route's notifications in each hour of the last day: delivered ones above the line, all others below it.
/// Each side has a scale of its own, so that many retries do not hide few deliveries.
struct RouteChart {
    let buckets: [NodeSnapshot.Bucket]

    private static let (width, height) = (120.0, 36.0)

    private static func others(_ bucket: NodeSnapshot.Bucket) -> Int { bucket.rejected + bucket.retry + bucket.gone }

    private var delivered: Int { buckets.reduce(0) { $0 + $1.delivered } }
    private var others: Int { buckets.reduce(0) { $0 + Self.others($1) } }

    /// The numbers as text, and the chart, which screen readers skip.
    var html: HTML {
        let words = others == 0 ? "" : ", \(Format.count(others)) not delivered"
        return """
            \(Format.count(delivered)) delivered\(words)<br><svg class="route" viewBox="0 0 120 36" aria-hidden="true">\
            \(bars("delivered", count: \.delivered, sign: -1))\(bars("gone", count: Self.others, sign: 1))\
            <line class="grid" x1="0" x2="120" y1="18" y2="18"/></svg>
            """
    }

    private func bars(_ kind: String, count: (NodeSnapshot.Bucket) -> Int, sign: Double) -> HTML {
        let most = Double(max(1, buckets.map(count).max() ?? 0))
        let step = Self.width / Double(max(1, buckets.count))
        var path: HTML = ""
        for (index, bucket) in buckets.enumerated() where count(bucket) > 0 {
            // One notification among thousands stays visible.
            let size = max(1, Double(count(bucket)) / most * (Self.height / 2 - 1))
            let start = Double(index) * step
            path += "M\(start) 18V\(Self.height / 2 + sign * size)H\(start + step - 1)V18z"
        }
        return path.text.isEmpty ? "" : "<path class=\"\(kind)\" d=\"\(path)\"/>"
    }
}
