// SPDX-License-Identifier: Apache-2.0

import AdminPort
import TestSupport
import Testing

@testable import TocsinNode

@Suite(.tags(.computing)) struct ProbeScheduleTests {
    private static let now: Int64 = 1_790_000_000

    @Test(
        arguments: [
            (nil, nil, true), (3599, nil, false), (3600, nil, true), (nil, 3599, false), (nil, 3600, true),
            (3600, 3599, false), (-3600, -3600, true),
        ] as [(Int64?, Int64?, Bool)])
    func `a route without an answer for an hour is probed`(_ answered: Int64?, _ probed: Int64?, _ isDue: Bool) {
        var record = RouteRecord()
        if let answered { record.answered(isDelivered: false, at: Self.now - answered) }
        if let probed { record.probe = .init(time: Self.now - probed, isGood: true, answer: "BadDeviceToken") }
        #expect(ProbeSchedule.isDue(record, at: Self.now) == isDue)
    }

    @Test func `a probe that failed is repeated sooner, and a shut route has probes of its own`() {
        var record = RouteRecord()
        record.probe = .init(time: Self.now - 299, isGood: false, answer: "timeout")
        #expect(!ProbeSchedule.isDue(record, at: Self.now))
        #expect(ProbeSchedule.isDue(record, at: Self.now + 1))
        record.breakerChanged(isClosed: false, after: "timeout", at: Self.now)
        #expect(!ProbeSchedule.isDue(record, at: Self.now + 1))
    }
}
