// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import TocsinNode

@Suite(.tags(.computing)) struct StandingKeeperTests {
    @Test func `a burst of new phones waits for a large transaction, for ten seconds at most`() {
        #expect(StandingKeeper.isTimeToSave(1, after: 1) && StandingKeeper.isTimeToSave(5000, after: 1))
        #expect(!StandingKeeper.isTimeToSave(5001, after: 1) && !StandingKeeper.isTimeToSave(49_999, after: 9))
        #expect(StandingKeeper.isTimeToSave(50_000, after: 1) && StandingKeeper.isTimeToSave(5001, after: 10))
    }
}
