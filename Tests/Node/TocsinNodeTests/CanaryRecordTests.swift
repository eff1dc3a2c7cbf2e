// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import TocsinNode

@Suite(.tags(.computing)) struct CanaryRecordTests {
    @Test func `only a delivery counts as success, and the last attempt is shown`() {
        var record = CanaryRecord(started: 100)
        #expect(record.last == nil && record.lastSuccess == 100)
        let delivered = record.ended(at: 200, isDelivered: true, text: "delivered")
        #expect(record.last == delivered && record.lastSuccess == 200)
        let failed = record.ended(at: 300, isDelivered: false, text: "unreachable")
        #expect(record.last == failed && record.lastSuccess == 200)
    }

    @Test func `the first attempt waits for tor, but no longer than any other`() {
        #expect(CanaryRecord.firstPause(every: 3600) == .seconds(60))
        #expect(CanaryRecord.firstPause(every: 5) == .seconds(5))
    }

    @Test(arguments: [(0.0, 900), (0.5, 1000), (1.0, 1100)])
    func `the pause varies by a tenth`(_ random: Double, _ seconds: Int) {
        let difference = CanaryRecord.pause(every: 1000, random: random) - .seconds(seconds)
        #expect(abs(difference / .milliseconds(1)) < 1)
    }
}
