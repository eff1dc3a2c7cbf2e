// SPDX-License-Identifier: Apache-2.0

import Console
import Diagnostics
import Settings

/// Findings as text: one line each, and a summary.
struct FindingLines {
    let findings: [Finding]
    /// Whether to colour the grades, for a terminal.
    let isColoured: Bool

    /// One line for each finding.
    var lines: [String] {
        findings.map { finding in
            let grade = Terminal.padded(finding.grade.rawValue, 8)
            let area = Terminal.padded(finding.area.rawValue, 14)
            return coloured(grade, finding.grade) + " \(area)"
                + TerminalText.line("\(finding.subject): \(finding.text)")
        }
    }

    /// The number of findings of each grade.
    var summary: String {
        let counts = Finding.Grade.allCases.map { grade in
            "\(findings.count { $0.grade == grade }) \(grade.rawValue)"
        }
        return counts.joined(separator: ", ")
    }

    private func coloured(_ text: String, _ grade: Finding.Grade) -> String {
        guard isColoured else { return text }
        let code =
            switch grade {
            case .ok: "32"
            case .warning: "33"
            case .failed: "31"
            }
        return "\u{1B}[\(code)m\(text)\u{1B}[0m"
    }
}
