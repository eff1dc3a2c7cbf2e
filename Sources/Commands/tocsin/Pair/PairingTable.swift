// SPDX-License-Identifier: Apache-2.0

import Console
import TocsinClient

/// The report on a pairing token: its parts, whether each app accepts it, and hints.
struct PairingTable {
    let lines: [String]

    init(_ review: PairingReview) {
        var lines: [String] = []
        if !review.parts.isEmpty {
            let header = ["part", "content", ""]
            lines += Self.table([header] + review.parts.map { [$0.name, $0.content, $0.fault ?? "ok"] }) + [""]
            lines += Self.table(
                review.compatibilities.map { check in
                    let text = check.isAccepted ? "would accept it" : "would reject it"
                    let separator = check.isAccepted ? ", " : ": "
                    return [check.app.rawValue, text + (check.remark.map { separator + $0 } ?? "")]
                })
        }
        if !review.hints.isEmpty {
            lines += (lines.isEmpty ? [] : [""]) + review.hints.map { "hint: \($0)" }
        }
        self.lines = lines
    }

    /// Formats rows with aligned columns.
    private static func table(_ rows: [[String]]) -> [String] {
        let columns = rows.first?.count ?? 0
        let widths = (0..<columns).map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            let cells = row.enumerated().map { column, cell in
                column == columns - 1 ? cell : Terminal.padded(cell, widths[column] + 2)
            }
            let line = cells.joined()
            return String(line.prefix(upTo: line.lastIndex { $0 != " " }.map(line.index(after:)) ?? line.startIndex))
        }
    }
}
