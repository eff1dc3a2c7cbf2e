// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import Time

@testable import AdminPort
@testable import TocsinNode

@Suite(.tags(.computing)) struct HealthNoticesTests {
    private func health(_ problem: String? = nil) -> Health {
        var snapshot = NodeSnapshot(now: 0)
        snapshot.notReady = [problem.map { Concern($0) }].compactMap(\.self)
        return Health(snapshot)
    }

    @Test func `each change is told once, and a state that comes and goes once a minute`() {
        let start = MonotonicTime.now
        var notices = HealthNotices()
        func told(_ problem: String?, after second: Int) -> String? {
            notices.due(for: health(problem), at: start + .seconds(second))?.summary
        }
        #expect(told(nil, after: 0) == "Everything works")
        #expect(told(nil, after: 100) == nil)
        #expect(told("a", after: 101) == "The node is not ready: a")
        for second in 102..<160 { #expect(told(second % 2 == 0 ? nil : "a", after: second) == nil) }
        #expect(told("a", after: 161) == nil)
        #expect(told(nil, after: 162) == "Everything works")
    }
}
