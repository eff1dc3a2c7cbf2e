// SPDX-License-Identifier: Apache-2.0

import StandIns
import TestSupport
import Testing

@testable import Delivery

@Suite(.tags(.computing)) struct DeviceThrottlingTests {
    /// The part of answers after which the lane counts as throttled, when this part of them throttles a device.
    private func isNoticed(perMille: Int, answers: Int = 2000) -> Double {
        var throttling = DeviceThrottling()
        var random = SplitMix64(seed: 7)
        var noticed = 0
        for _ in 0..<answers {
            if throttling.record(isThrottled: random.below(1000) < perMille) { noticed += 1 }
        }
        return Double(noticed) / Double(answers)
    }

    @Test func `a few throttled devices say nothing about the lane`() {
        #expect(isNoticed(perMille: 0) == 0)
        #expect(isNoticed(perMille: 10) == 0)
        var throttling = DeviceThrottling()
        let noticed = (0..<3).count { _ in throttling.record(isThrottled: true) }
        #expect(noticed == 0)
    }

    @Test func `many throttled devices mean that the lane is`() {
        #expect(isNoticed(perMille: 300) > 0.95)
        #expect(isNoticed(perMille: 1000) > 0.99)
    }

    @Test func `the lane works again when devices do`() {
        var throttling = DeviceThrottling()
        for _ in 0..<1000 { _ = throttling.record(isThrottled: true) }
        let answers = (0..<200).count { _ in throttling.record(isThrottled: false) }
        #expect(answers > 20 && answers < 100)
    }
}
