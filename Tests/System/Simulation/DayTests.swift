// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import tocsin_bench

@Suite(.tags(.extended)) struct DayTests {
    @Test func `the node restarts and is killed once, and the rest takes turns`() {
        for (hours, count) in [(1, 11), (6, 39), (24, 39)] {
            let plan = DayEvent.plan(for: .seconds(hours * 3600))
            #expect(plan.count == count)
            #expect(plan.firstIndex(of: .restart) == (count + 1) / 8 - 1)
            #expect(plan.firstIndex(of: .kill) == (count + 1) / 4 - 1)
            for event in DayEvent.allCases {
                let isOfNode = event == .restart || event == .kill
                #expect(plan.count { $0 == event } > (isOfNode ? 0 : 1))
                #expect(!isOfNode || plan.count { $0 == event } == 1)
            }
        }
        #expect(DayEvent.plan(for: DayResult.shortest).count == 7)
    }

    /// A day of six hours with the figures of each hour.
    private func day(_ memory: (Double) -> Double, _ latency: (Double) -> Double = { _ in 1 }) -> DayResult {
        var day = DayResult()
        day.duration = .seconds(6 * 3600)
        for minute in 0..<360 {
            let hours = Double(minute) / 60
            day.memory.add(memory(hours), at: hours)
            day.latency.add(latency(hours), at: hours)
            day.descriptors.add(50, at: hours)
        }
        return day
    }

    @Test func `growth breaks the rules once the node has settled, and loss always`() {
        #expect(day { $0 < 2.25 ? $0 * 10_000 : 25_000 }.violations.isEmpty)
        #expect(day { 25_000 + $0 * 1000 }.violations == ["the node's memory grows"])
        #expect(day({ _ in 25_000 }) { 1 + $0 / 10 }.violations == ["the latency grows"])
        var lossy = day { _ in 25_000 }
        (lossy.notSeen, lossy.wrongOutcomes, lossy.sums.unexplained) = (1, 2, 3)
        #expect(lossy.violations.count == 3)
        #expect(lossy.table.contains("slope 0 an hour"))
    }
}
