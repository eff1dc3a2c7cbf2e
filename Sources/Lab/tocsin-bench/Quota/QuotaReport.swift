// SPDX-License-Identifier: Apache-2.0

import Console

/// What a node and a push service with quotas did, second by second, and whether the node settled.
struct QuotaReport {
    /// A part of a run with the same quota.
    struct Phase: Equatable {
        let name: String
        /// In seconds.
        let length: Int
        /// Notifications a second that senders submit; 0 for none.
        let submitted: Double
        /// Notifications a second that the push service takes; see `Quota.whole`.
        let quota: Double
    }

    /// What happened in a second.
    struct Sample: Equatable {
        /// Requests that the push service received.
        var requests = 0
        /// Those of them that it refused because of a quota.
        var refused = 0
        /// Requests without an answer at the end of the second.
        var outstanding = 0
        var submitted = 0
        /// Submissions whose senders wait for a final outcome at the end of the second.
        var waiting = 0

        var accepted: Int { requests - refused }
    }

    let phases: [Phase]
    let samples: [Sample]

    /// Seconds at the start of a phase in which the node may still search for the new quota.
    static let settling = 60
    /// The most requests refused in a settled phase, as a share of ``Row/possible``.
    private static let maximumRefused = 0.15
    /// The fewest notifications delivered in a settled phase, as a share of ``Row/possible``.
    private static let leastUsed = 0.85
    /// The most requests in any second, as a multiple of the quota or of what senders submit, whichever is larger.
    private static let storm = 3.0

    /// A phase with its figures.
    private struct Row {
        let phase: Phase
        let settled: ArraySlice<Sample>
        let all: ArraySlice<Sample>

        private func mean(_ value: KeyPath<Sample, Int>) -> Double {
            Double(settled.reduce(0) { $0 + $1[keyPath: value] }) / Double(max(1, settled.count))
        }
        var accepted: Double { mean(\.accepted) }
        var refused: Double { mean(\.refused) }
        var outstanding: Double { mean(\.outstanding) }
        var peak: Int { all.map(\.requests).max() ?? 0 }
        /// Notifications a second that the node can deliver.
        var possible: Double { min(phase.submitted, phase.quota) }
    }

    private var rows: [Row] {
        var start = 0
        return phases.compactMap { phase in
            let end = min(start + phase.length, samples.count)
            defer { start = end }
            guard phase.submitted > 0 else { return nil }
            return Row(
                phase: phase, settled: samples[min(start + Self.settling, end)..<end], all: samples[start..<end])
        }
    }

    /// The requirements that the node did not meet in some phase; empty if it settled.
    var problems: [String] {
        rows.flatMap { row in
            var problems: [String] = []
            if row.refused > Self.maximumRefused * row.possible {
                problems.append(
                    "\(row.phase.name): \(Terminal.number(row.refused, digits: 1)) requests a second refused")
            }
            if row.accepted < Self.leastUsed * row.possible {
                problems.append(
                    "\(row.phase.name): only \(Terminal.number(row.accepted, digits: 1)) delivered a second")
            }
            if Double(row.peak) > Self.storm * max(row.phase.quota, row.phase.submitted) {
                problems.append("\(row.phase.name): \(row.peak) requests in a second")
            }
            return problems
        }
    }

    /// The phases as a table. The means leave out the first ``settling`` seconds.
    var table: [String] {
        let head = ["phase", "submitted/s", "quota/s", "delivered/s", "refused/s", "in flight", "peak/s"]
        let lines = rows.map { row in
            [
                row.phase.name, Terminal.number(row.phase.submitted, digits: 0),
                Terminal.number(row.phase.quota, digits: 0), Terminal.number(row.accepted, digits: 1),
                Terminal.number(row.refused, digits: 1), Terminal.number(row.outstanding, digits: 1), "\(row.peak)",
            ]
        }
        return ([head] + lines).map { cells in
            cells.enumerated().map { Terminal.padded($1, $0 == 0 ? 24 : 12, right: $0 > 0) }.joined()
        }
    }

    /// A header line, and a line for each second.
    var csv: String {
        var text = "second,submitted,quota,accepted,refused,in_flight,waiting\n"
        var start = 0
        for phase in phases {
            let end = min(start + phase.length, samples.count)
            for second in start..<end {
                let sample = samples[second]
                text +=
                    "\(second),\(sample.submitted),\(phase.quota),\(sample.accepted),\(sample.refused),"
                    + "\(sample.outstanding),\(sample.waiting)\n"
            }
            start = end
        }
        return text
    }
}
