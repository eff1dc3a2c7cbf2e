// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import TocsinNode

@Suite(.tags(.computing)) struct NodeTotalsTests {
    @Test func `an hour is the difference of two totals, without zeros`() {
        let earlier = NodeTotals(
            outcomes: ["bisq/iOS": ["delivered": 100, "retry": 3], "bisq/android": ["delivered": 5]],
            refusals: ["over_rate": 7])
        let now = NodeTotals(
            outcomes: ["bisq/iOS": ["delivered": 274, "retry": 3, "gone": 2], "bisq/android": ["delivered": 5]],
            refusals: ["over_rate": 19, "proof_required": 1])
        #expect(
            now.since(earlier).counts == [
                "bisq/iOS": ["delivered": 174, "gone": 2], "refused": ["over_rate": 12, "proof_required": 1],
            ])
        #expect(now.since(now).counts.isEmpty)
    }

    @Test func `a route that is served anew counts from the beginning`() {
        let earlier = NodeTotals(outcomes: ["bisq/iOS": ["delivered": 100]])
        #expect(
            NodeTotals(outcomes: ["bisq/iOS": ["delivered": 4]]).since(earlier).counts == ["bisq/iOS": ["delivered": 4]]
        )
    }
}
