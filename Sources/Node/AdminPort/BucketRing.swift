// SPDX-License-Identifier: Apache-2.0

/// Numbers of outcomes in the last intervals of one width: a new bucket overwrites the oldest one.
package struct BucketRing: Sendable {
    private let width: Int64
    private var slots: [NodeSnapshot.Bucket]

    /// - Parameters:
    ///   - width: the length of a bucket in seconds.
    ///   - count: the number of buckets.
    package init(width: Int64, count: Int) {
        self.width = width
        slots = Array(repeating: NodeSnapshot.Bucket(start: .min), count: count)
    }

    /// Adds the counts of a bucket, whatever its start, to the bucket of the time `now`.
    /// - Parameter now: Unix time in seconds.
    package mutating func add(_ counts: NodeSnapshot.Bucket, at now: Int64) {
        let (start, index) = place(of: now)
        // If the starts differ, the slot holds an expired interval, or a future one that was counted while the clock
        // was wrong.
        if slots[index].start != start { slots[index] = NodeSnapshot.Bucket(start: start) }
        slots[index].delivered += counts.delivered
        slots[index].rejected += counts.rejected
        slots[index].retry += counts.retry
        slots[index].gone += counts.gone
    }

    /// The buckets, oldest first; the last one is incomplete.
    package func buckets(at now: Int64) -> [NodeSnapshot.Bucket] {
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

    // MARK: On disk

    /// The buckets that are not empty, each as its start and the counts of delivered, rejected, retry and gone.
    package func rows(at now: Int64) -> [[Int64]] {
        buckets(at: now).filter { $0.delivered + $0.rejected + $0.retry + $0.gone > 0 }.map { bucket in
            [bucket.start, Int64(bucket.delivered), Int64(bucket.rejected), Int64(bucket.retry), Int64(bucket.gone)]
        }
    }

    /// Adds what ``rows(at:)`` has returned; ignores rows of another form.
    package mutating func restore(_ rows: [[Int64]]) {
        for row in rows.prefix(slots.count) where row.count == 5 && row.allSatisfy((0...Self.maximumValue).contains) {
            let counts = row.map(Int.init)
            add(
                NodeSnapshot.Bucket(
                    start: row[0], delivered: counts[1], rejected: counts[2], retry: counts[3], gone: counts[4]),
                at: row[0])
        }
    }

    /// The largest count or start that ``restore(_:)`` accepts.
    private static let maximumValue: Int64 = 1 << 40
}

extension NodeSnapshot.Bucket {
    /// The counts of outcomes by their names; QUEUED is not final and is not counted.
    package init(_ counts: [String: Int]) {
        self.init(
            start: 0, delivered: counts["delivered"] ?? 0, rejected: counts["rejected"] ?? 0,
            retry: counts["retry"] ?? 0, gone: counts["gone"] ?? 0)
    }
}
