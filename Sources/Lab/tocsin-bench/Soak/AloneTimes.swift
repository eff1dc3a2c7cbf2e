// SPDX-License-Identifier: Apache-2.0

import Time

/// The times at which nodes of a cluster decided alone, without the engine, or may have done so.
struct AloneTimes {
    private var times: [[ClosedRange<MonotonicTime>]]
    /// Since when each node has decided alone; `nil` for a node that asks the engine.
    private var starts: [MonotonicTime?]

    init(nodes: Int) {
        times = Array(repeating: [], count: nodes)
        starts = Array(repeating: nil, count: nodes)
    }

    /// Notes that a node has started: it decides alone until it reaches the engine.
    mutating func began(_ node: Int, at now: MonotonicTime) { starts[node] = starts[node] ?? now }

    /// Adds a time at which a node may have decided alone.
    mutating func add(_ time: ClosedRange<MonotonicTime>, of node: Int) { times[node].append(time) }

    /// Learns from a line of a node's log.
    /// - Parameters:
    ///   - last: the time of the previous reading, when the log did not have this line yet.
    ///   - now: the time of this reading.
    mutating func read(_ line: Substring, of node: Int, since last: MonotonicTime, at now: MonotonicTime) {
        if line.contains("the engine of the cluster is slow")
            || line.contains("the engine of the cluster cannot be used")
        {
            starts[node] = starts[node] ?? last
        } else if line.contains("answers in time again") || line.contains("the engine of the cluster can be used") {
            end(node, at: now)
        }
    }

    /// Notes that all nodes have ended.
    mutating func endAll(at now: MonotonicTime) {
        for node in starts.indices { end(node, at: now) }
    }

    private mutating func end(_ node: Int, at now: MonotonicTime) {
        if let start = starts[node] { times[node].append(start...now) }
        starts[node] = nil
    }

    /// Whether some node may have decided alone at this time.
    func overlap(_ time: ClosedRange<MonotonicTime>) -> Bool {
        times.contains { $0.contains { $0.overlaps(time) } }
            || starts.contains { $0.map { $0 <= time.upperBound } ?? false }
    }

    /// How long a node may have decided alone, for each such time of each node. A node's times that overlap count as
    /// one.
    var durations: [Duration] {
        times.flatMap { times -> [Duration] in
            var merged: [ClosedRange<MonotonicTime>] = []
            for time in times.sorted(by: { $0.lowerBound < $1.lowerBound }) {
                if let last = merged.last, last.overlaps(time) {
                    merged[merged.count - 1] = last.lowerBound...max(last.upperBound, time.upperBound)
                } else {
                    merged.append(time)
                }
            }
            return merged.map { $0.upperBound - $0.lowerBound }
        }
    }
}
