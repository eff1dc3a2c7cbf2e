// SPDX-License-Identifier: Apache-2.0

/// The resource usage of the node's process in one phase.
struct NodeStatistics {
    var cpuSeconds = 0.0
    /// Peak resident memory since the process started.
    var peakKilobytes = 0
}

extension NodeStatistics {
    /// - Parameters: the usage at the start and the end of the phase.
    init(from start: ProcessUsage, to end: ProcessUsage) {
        self.init(cpuSeconds: end.cpuSeconds - start.cpuSeconds, peakKilobytes: end.peakKilobytes)
    }
}
