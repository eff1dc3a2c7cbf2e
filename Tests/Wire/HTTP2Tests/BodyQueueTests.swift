// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import Time

@testable import HTTP2

@Suite(.tags(.computing)) struct BodyQueueTests {
    /// An expectation cannot change a value.
    private final class Queue {
        private var queue = BodyQueue()
        var isEmpty: Bool { queue.isEmpty }

        func mayStart(_ stream: Int32, size: Int, window: Int, now: MonotonicTime) -> Bool {
            queue.mayStart(stream, size: size, window: window, now: now)
        }
        func next(window: Int, now: MonotonicTime) -> [Int32] { queue.next(window: window, now: now) }
        func remove(_ stream: Int32) { queue.remove(stream) }
    }

    private let start = MonotonicTime(nanoseconds: 0)

    @Test func `a body that fits starts at once, until one has to wait`() {
        let queue = Queue()
        let starts = queue.mayStart(1, size: 4000, window: 4000, now: start)
        #expect(starts && queue.isEmpty)
        #expect(!queue.mayStart(3, size: 4000, window: 3999, now: start))
        // It would overtake.
        #expect(!queue.mayStart(5, size: 10, window: 3999, now: start))
        #expect(!queue.isEmpty)
    }

    @Test func `bodies start in order, each when all of it fits`() {
        let queue = Queue()
        for (stream, size) in [(1, 4000), (3, 100), (5, 5000), (7, 10)] {
            // Asked twice, as nghttp2 may.
            for _ in 0..<2 {
                let starts = queue.mayStart(Int32(stream), size: size, window: 0, now: start)
                #expect(!starts)
            }
        }
        #expect(queue.next(window: 3999, now: start) == [])
        #expect(queue.next(window: 4100, now: start) == [1, 3])
        // Their room is taken until they start.
        #expect(queue.next(window: 9099, now: start) == [])
        for stream: Int32 in [1, 3] { #expect(queue.mayStart(stream, size: 4000, window: 0, now: start)) }
        #expect(queue.next(window: 4999, now: start) == [])
        queue.remove(5)
        #expect(queue.next(window: 4999, now: start) == [7])
        #expect(!queue.mayStart(9, size: 4990, window: 4999, now: start))
        #expect(queue.mayStart(7, size: 10, window: 4999, now: start))
        queue.remove(9)
        #expect(queue.isEmpty)
    }

    @Test func `a body that has waited long is sent in parts`() {
        let queue = Queue()
        #expect(!queue.mayStart(1, size: 4000, window: 10, now: start))
        #expect(!queue.mayStart(3, size: 4000, window: 10, now: start + .milliseconds(100)))
        #expect(queue.next(window: 10, now: start + .milliseconds(499)) == [])
        #expect(queue.next(window: 0, now: start + .milliseconds(500)) == [])
        #expect(queue.next(window: 10, now: start + .milliseconds(600)) == [1])
        #expect(queue.next(window: 10, now: start + .milliseconds(600)) == [])
        #expect(queue.mayStart(1, size: 4000, window: 10, now: start + .milliseconds(600)))
        #expect(queue.next(window: 10, now: start + .milliseconds(600)) == [3])
    }

    @Test func `a body longer than a frame does not wait`() {
        let queue = Queue()
        #expect(queue.mayStart(1, size: BodyQueue.maximumLength + 1, window: 10, now: start))
        #expect(!queue.mayStart(3, size: BodyQueue.maximumLength, window: 10, now: start))
    }
}
