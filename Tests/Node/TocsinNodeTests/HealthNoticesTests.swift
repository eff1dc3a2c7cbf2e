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
            notices.due(for: health(problem), at: start + .seconds(second))?.notice
        }
        #expect(told(nil, after: 0) == "the node is ready")
        #expect(told(nil, after: 100) == nil)
        #expect(told("a", after: 101) == "The node is not ready: a")
        for second in 102..<160 { #expect(told(second % 2 == 0 ? nil : "a", after: second) == nil) }
        #expect(told("a", after: 161) == nil)
        #expect(told(nil, after: 162) == "the node is ready")
    }

    @Test func `the log does not tell when somebody was rung`() {
        var notices = HealthNotices()
        let start = MonotonicTime.now
        var route = NodeSnapshot.RouteState(name: "bisq/iOS")
        var snapshot = NodeSnapshot(now: 1000)
        snapshot.reload.readConfiguration(restartKeys: ["listen"])
        for (second, delivered) in [(0, 0), (100, 1), (200, 0), (300, 1)] {
            if delivered > 0 { route.record.answered(isDelivered: true, at: 1000) }
            snapshot.hour = [NodeSnapshot.Bucket(start: 960, delivered: delivered)]
            snapshot.routes = [route]
            #expect((notices.due(for: Health(snapshot), at: start + .seconds(second)) == nil) == (second > 0))
        }
    }
}
