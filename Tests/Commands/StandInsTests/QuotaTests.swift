// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import Time

@testable import StandIns

@Suite(.tags(.sockets)) struct QuotaTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000_000)

    /// The requests a second that a service takes while this many come.
    private func taken(_ meter: inout QuotaMeter, perSecond: Int, devices: Int, second: Int) -> Int {
        (0..<perSecond).count { request in
            let time = start + .seconds(second) + .nanoseconds(Int64(request) * 1_000_000_000 / Int64(perSecond))
            return meter.decide(on: "device \(request % devices)", at: time) == .taken(after: .zero)
        }
    }

    @Test func `without a quota everything is taken`() {
        var meter = QuotaMeter()
        #expect(taken(&meter, perSecond: 1000, devices: 1, second: 0) == 1000)
    }

    @Test func `a device has a burst and a rate, and others have their own`() {
        var meter = QuotaMeter()
        meter.quota.device = Quota.Rate(burst: 20, perSecond: 4)
        #expect(taken(&meter, perSecond: 100, devices: 1, second: 0) == 23)
        #expect(taken(&meter, perSecond: 100, devices: 1, second: 1) == 4)
        #expect(meter.decide(on: "device 0", at: start + .seconds(2)) == .taken(after: .zero))
        guard case .refused(let wait) = meter.decide(on: "device 0", at: start + .seconds(2)) else {
            Issue.record("taken twice")
            return
        }
        #expect(wait > .zero && wait <= .milliseconds(251))
        #expect(meter.decide(on: "another", at: start + .seconds(2)) == .taken(after: .zero))
    }

    @Test func `the rate of a topic rises after quiet`() {
        var meter = QuotaMeter()
        meter.quota.whole = Quota.Rate(burst: 100, perSecond: 100)
        meter.quota.rampUp = .seconds(60)
        let counts = (0..<70).map { taken(&meter, perSecond: 200, devices: 200, second: $0) }
        #expect(counts[1] < 10 && (45...55).contains(counts[30]) && (99...101).contains(counts[69]))
        #expect((99...200).contains(taken(&meter, perSecond: 200, devices: 200, second: 120)))
        #expect(taken(&meter, perSecond: 200, devices: 200, second: 181) < 15)
    }

    @Test func `a service that is busy answers later`() {
        var meter = QuotaMeter()
        meter.quota.processedPerSecond = 10
        let waits = (0..<3).map { _ in meter.decide(on: "device", at: start) }
        #expect(waits == [1, 2, 3].map { .taken(after: .milliseconds($0 * 100)) })
        #expect(meter.decide(on: "device", at: start + .seconds(10)) == .taken(after: .milliseconds(100)))
    }
}
