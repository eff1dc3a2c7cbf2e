// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TestSupport
import Testing

@testable import HTTP2
@testable import Time

@Suite(.tags(.sockets)) struct FrameBudgetTests {
    private func time(_ milliseconds: Int) -> MonotonicTime {
        MonotonicTime(nanoseconds: UInt64(1_000_000 + milliseconds) * 1_000_000)
    }

    /// The number of frames accepted at these times before one is refused.
    private func accepted(by budget: inout FrameBudget, at times: some Sequence<Int>) -> Int {
        var count = 0
        for millisecond in times {
            guard budget.frame(time(millisecond)) else { break }
            count += 1
        }
        return count
    }

    @Test func `frames without a response exhaust the budget`() {
        var budget = FrameBudget(now: time(0))
        #expect(accepted(by: &budget, at: repeatElement(0, count: 100_000)) == FrameBudget.maximumCredits)
        #expect(accepted(by: &budget, at: [3]) == 0)
    }

    @Test func `each response restores the credits of its frames`() {
        var budget = FrameBudget(now: time(0))
        for _ in 0..<100_000 {
            guard
                accepted(by: &budget, at: repeatElement(0, count: FrameBudget.creditsPerResponse))
                    == FrameBudget.creditsPerResponse
            else {
                Issue.record("a frame was refused although responses arrive")
                return
            }
            budget.responseCompleted()
        }
    }

    @Test func `a trickle of frames never exhausts the budget`() {
        var budget = FrameBudget(now: time(0))
        #expect(accepted(by: &budget, at: stride(from: 0, to: 600_000, by: 5)) == 120_000)
    }

    @Test func `1000 frames a second without responses exhaust the budget within 30 s`() {
        var budget = FrameBudget(now: time(0))
        let interval = max(1, 500 / FrameBudget.creditsPerSecond)
        #expect(accepted(by: &budget, at: stride(from: 0, to: 30_000, by: interval)) < 30_000 / interval)
    }
}
