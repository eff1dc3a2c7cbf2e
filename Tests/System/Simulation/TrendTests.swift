// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import tocsin_bench

@Suite(.tags(.computing)) struct TrendTests {
    private func trend(_ values: [Double]) -> Trend {
        var trend = Trend()
        for (index, value) in values.enumerated() { trend.add(value, at: Double(index) / 10) }
        return trend
    }

    @Test func `a slope is that of the line, and a part has its own`() {
        let line = trend((0..<30).map { 100 + 2 * Double($0) })
        #expect(abs(line.slope - 20) < 1e-9)
        #expect(line.growth == 40 && line.median == 130)
        let bend = trend((0..<30).map { $0 < 20 ? Double($0) : 20 })
        #expect(bend.slope > 5 && abs(bend.suffix(from: 2).slope) < 1e-9)
    }

    @Test func `an outlier is no growth, and few samples have none`() {
        var values = Array(repeating: 50.0, count: 30)
        values[29] = 5000
        #expect(trend(values).growth == 0)
        for values in [[], [1], [1, 2]] as [[Double]] { #expect(trend(values).growth == 0) }
        #expect(trend([]).slope == 0 && trend([]).median == 0)
    }

    @Test func `a run has a length with a unit`() {
        #expect(RunTime(argument: "90s")?.value == .seconds(90))
        #expect(RunTime(argument: "20m")?.value == .seconds(1200))
        #expect(RunTime(argument: "6h")?.value == .seconds(21_600))
        for text in ["", "h", "6", "0h", "-1h", "6d", "1.5h", "9000000000000000000h"] {
            #expect(RunTime(argument: text) == nil)
        }
    }
}
