// SPDX-License-Identifier: Apache-2.0

import TNP

/// Counts final outcomes: a minute each for an hour, ten minutes each for a day. As large at its end as at its beginning.
package struct History: Sendable {
    /// A history without outcomes.
    package init() {}

    private var minutes = Ring(width: 60, count: 60)
    private var stretches = Ring(width: 600, count: 144)

    /// An envelope has its outcome; one that is only queued has none yet.
    /// - Parameter at: Unix time in seconds.
    package mutating func count(_ kind: Outcome.Kind, at now: Int64) {
        let counter: WritableKeyPath<NodeSnapshot.Bucket, Int>
        switch kind {
        case .delivered: counter = \.delivered
        case .rejected: counter = \.rejected
        case .retry: counter = \.retry
        case .gone: counter = \.gone
        case .queued: return
        }
        minutes.count(counter, at: now)
        stretches.count(counter, at: now)
    }

    /// The minutes of the last hour, oldest first; the last one goes on.
    package func hour(at now: Int64) -> [NodeSnapshot.Bucket] { minutes.buckets(at: now) }

    /// The last day in stretches of ten minutes, oldest first; the last one goes on.
    package func day(at now: Int64) -> [NodeSnapshot.Bucket] { stretches.buckets(at: now) }

    /// The latest buckets of one width; each is used again when its time is over.
    private struct Ring {
        private let width: Int64
        private var slots: [NodeSnapshot.Bucket]

        /// - Parameter width: seconds of a bucket.
        init(width: Int64, count: Int) {
            self.width = width
            slots = Array(repeating: NodeSnapshot.Bucket(start: .min), count: count)
        }

        mutating func count(_ counter: WritableKeyPath<NodeSnapshot.Bucket, Int>, at now: Int64) {
            let (start, index) = place(of: now)
            // Another beginning: of a time that is over, or of one that was thought to come when the clock was wrong.
            if slots[index].start != start { slots[index] = NodeSnapshot.Bucket(start: start) }
            slots[index][keyPath: counter] += 1
        }

        func buckets(at now: Int64) -> [NodeSnapshot.Bucket] {
            let last = place(of: now).start
            return (0..<slots.count).reversed().map { age in
                let (start, index) = place(of: last - Int64(age) * width)
                return slots[index].start == start ? slots[index] : NodeSnapshot.Bucket(start: start)
            }
        }

        private func place(of time: Int64) -> (start: Int64, index: Int) {
            // Rounded down, also before 1970, where a clock may begin.
            let number = time >= 0 ? time / width : (time + 1) / width - 1
            let count = Int64(slots.count)
            return (number * width, Int((number % count + count) % count))
        }
    }
}
