// SPDX-License-Identifier: Apache-2.0

import AdminPort
import TNP
import TestSupport
import Testing

@testable import Providers
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
        if let probed { record.probe = .init(time: Self.now - probed, verdict: .good, answer: "BadDeviceToken") }
        #expect(ProbeSchedule.isDue(record, at: Self.now) == isDue)
    }

    @Test func `one lost connection says nothing, a second one does`() {
        func verdict(
            _ disposition: Disposition, after earlier: RouteRecord.Probe.Verdict?, ago: Int64 = 60
        ) -> RouteRecord.Probe.Verdict {
            var record = RouteRecord()
            record.probe = earlier.map { .init(time: Self.now - ago, verdict: $0, answer: "x") }
            return ProbeSchedule.verdict(
                on: AttemptResult(Outcome(.retry), disposition: disposition, answer: "x"), after: record, at: Self.now)
        }
        let lost = Disposition.unavailable(seconds: 30, minimum: 10)
        #expect(verdict(lost, after: nil) == .unclear && verdict(lost, after: .good) == .unclear)
        #expect(verdict(lost, after: .unclear) == .bad && verdict(lost, after: .bad) == .bad)
        #expect(verdict(.badToken, after: .bad) == .good && verdict(.misconfigured, after: .good) == .bad)
        // What was hours ago, or before an answer, says nothing any more.
        #expect(verdict(lost, after: .bad, ago: 3600) == .unclear)
        var answered = RouteRecord()
        answered.probe = .init(time: Self.now - 60, verdict: .bad, answer: "x")
        answered.answered(isDelivered: false, at: Self.now - 30)
        let result = AttemptResult(Outcome(.retry), disposition: lost, answer: "x")
        #expect(ProbeSchedule.verdict(on: result, after: answered, at: Self.now) == .unclear)
        var record = RouteRecord()
        record.probe = .init(time: Self.now - 60, verdict: .unclear, answer: "timeout")
        #expect(ProbeSchedule.isDue(record, at: Self.now) && !ProbeSchedule.isDue(record, at: Self.now - 1))
    }

    @Test func `a probe that failed is repeated sooner, and a shut route has probes of its own`() {
        var record = RouteRecord()
        record.probe = .init(time: Self.now - 299, verdict: .bad, answer: "timeout")
        #expect(!ProbeSchedule.isDue(record, at: Self.now))
        #expect(ProbeSchedule.isDue(record, at: Self.now + 1))
        record.breakerChanged(isClosed: false, after: "timeout", at: Self.now)
        #expect(!ProbeSchedule.isDue(record, at: Self.now + 1))
    }
}
