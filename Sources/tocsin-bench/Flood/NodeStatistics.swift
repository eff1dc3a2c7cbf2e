// SPDX-License-Identifier: Apache-2.0

/// What the node's process used in one part of a run.
struct NodeStatistics {
    var cpuSeconds = 0.0
    /// Peak resident memory since its start.
    var peakKilobytes = 0
}

extension NodeStatistics {
    /// - Parameters: as they were at both ends of the part.
    init(from start: ProcessUsage, to end: ProcessUsage) {
        self.init(cpuSeconds: end.cpuSeconds - start.cpuSeconds, peakKilobytes: end.peakKilobytes)
    }
}
