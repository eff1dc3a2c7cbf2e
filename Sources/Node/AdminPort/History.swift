// SPDX-License-Identifier: Apache-2.0

import TNP

/// Counts final outcomes, per minute for the last hour and per ten minutes for the last day. Its size is constant.
package struct History: Sendable {
    /// Creates a history without outcomes.
    package init() {}

    private var minutes = Ring(width: 60, count: 60)
    private var intervals = Ring(width: 600, count: 144)

    /// Counts the outcome of an envelope. QUEUED is not final and is not counted.
    /// - Parameter now: Unix time in seconds.
    package mutating func count(_ kind: Outcome.Kind, at now: Int64) {
        guard kind != .queued else { return }
        minutes.count(kind, at: now)
        intervals.count(kind, at: now)
    }

    /// The minutes of the last hour, oldest first; the last one is incomplete.
    package func hour(at now: Int64) -> [NodeSnapshot.Bucket] { minutes.buckets(at: now) }

    /// The ten-minute intervals of the last day, oldest first; the last one is incomplete.
    package func day(at now: Int64) -> [NodeSnapshot.Bucket] { intervals.buckets(at: now) }

    /// A ring of buckets of one width; a new bucket overwrites the oldest one.
    private struct Ring {
        private let width: Int64
        private var slots: [NodeSnapshot.Bucket]

        /// - Parameter width: the length of a bucket in seconds.
        init(width: Int64, count: Int) {
            self.width = width
            slots = Array(repeating: NodeSnapshot.Bucket(start: .min), count: count)
        }

        mutating func count(_ kind: Outcome.Kind, at now: Int64) {
            let (start, index) = place(of: now)
            // The slot holds an expired interval, or a future one that was counted while the clock was wrong.
            if slots[index].start != start { slots[index] = NodeSnapshot.Bucket(start: start) }
            switch kind {
            case .delivered: slots[index].delivered += 1
            case .rejected: slots[index].rejected += 1
            case .retry: slots[index].retry += 1
            case .gone: slots[index].gone += 1
            case .queued: break
            }
        }

        func buckets(at now: Int64) -> [NodeSnapshot.Bucket] {
            let last = place(of: now).start
            return (0..<slots.count).reversed().map { age in
                let (start, index) = place(of: last - Int64(age) * width)
                return slots[index].start == start ? slots[index] : NodeSnapshot.Bucket(start: start)
            }
        }

        private func place(of time: Int64) -> (start: Int64, index: Int) {
            // Rounds down for negative times too: an unset clock may show a time before 1970.
            let number = time >= 0 ? time / width : (time + 1) / width - 1
            let count = Int64(slots.count)
            return (number * width, Int((number % count + count) % count))
        }
    }
}
