// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import Time

@Suite(.tags(.computing)) struct DeadlineQueueTests {
    @Test func `elements are overdue at their deadlines, in the order of their addition`() {
        let start = MonotonicTime(nanoseconds: 0)
        var queue = DeadlineQueue<String>(limit: .seconds(90))
        #expect(queue.next == nil && queue.popOverdue(now: start) == nil)
        queue.append("a", now: start)
        queue.append("b", now: start)
        queue.append("c", now: start + .seconds(1))
        #expect(queue.next == start + .seconds(90))
        #expect(queue.popOverdue(now: start + (.seconds(90) - .nanoseconds(1))) == nil)
        #expect(queue.popOverdue(now: start + .seconds(90)) == "a")
        #expect(queue.popOverdue(now: start + .seconds(90)) == "b")
        #expect(queue.popOverdue(now: start + .seconds(90)) == nil)
        #expect(queue.next == start + .seconds(91))
        #expect(queue.popOverdue(now: start + .seconds(100)) == "c")
        #expect(queue.next == nil)
    }
}
