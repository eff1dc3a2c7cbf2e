// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TestSupport
import Testing

@testable import Delivery
@testable import Time

@Suite(.tags(.computing)) struct ConnectionFailuresTests {
    private func time(_ milliseconds: UInt64) -> MonotonicTime {
        MonotonicTime(nanoseconds: 1_000_000_000 + milliseconds * 1_000_000)
    }

    @Test func `failures within a second count once`() {
        var failures = ConnectionFailures()
        let areNew = [0, 0, 500, 999, 1000, 1999, 5000].map { failures.isNew(time($0)) }
        #expect(areNew == [true, false, false, false, true, false, true])
    }
}
