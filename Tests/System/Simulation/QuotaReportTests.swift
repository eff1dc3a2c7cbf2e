// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import tocsin_bench

@Suite(.tags(.extended)) struct QuotaReportTests {
    private let phases = [
        QuotaReport.Phase(name: "first", length: 100, submitted: 100, quota: 50),
        QuotaReport.Phase(name: "quiet", length: 10, submitted: 0, quota: 50),
        QuotaReport.Phase(name: "second", length: 100, submitted: 100, quota: 200),
    ]

    private func report(_ change: (inout [QuotaReport.Sample]) -> Void = { _ in }) -> QuotaReport {
        func sample(_ accepted: Int, refused: Int) -> QuotaReport.Sample {
            QuotaReport.Sample(requests: accepted + refused, refused: refused, outstanding: 5, submitted: 100)
        }
        var samples = Array(repeating: sample(50, refused: 5), count: 100)
        samples += Array(repeating: QuotaReport.Sample(), count: 10)
        samples += Array(repeating: sample(100, refused: 0), count: 100)
        change(&samples)
        return QuotaReport(phases: phases, samples: samples)
    }

    @Test func `a node that settles has no problem`() {
        #expect(report().problems.isEmpty)
        // While it settles, it may be refused.
        #expect(report { for index in 0..<60 { $0[index].refused = 50 } }.problems.isEmpty)
        #expect(report().table.count == 3 && report().csv.split(separator: "\n").count == 211)
    }

    @Test func `refusals, idleness and storms are problems`() {
        #expect(report { for index in 60..<100 { $0[index].refused = 12 } }.problems.count == 1)
        #expect(
            report { for index in 170..<210 { $0[index].requests = 80 } }.problems == [
                "second: only 80.0 delivered a second"
            ])
        #expect(report { $0[110].requests = 601 }.problems == ["second: 601 requests in a second"])
    }
}
