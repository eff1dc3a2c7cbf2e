// SPDX-License-Identifier: Apache-2.0

/// The resource usage of several processes from a moment on.
struct UsageMeter {
    private let pids: [Int32?]
    private let start: [ProcessUsage]

    /// Begins to measure.
    /// - Parameter pids: the processes; `nil` for this one.
    init(_ pids: [Int32?]) {
        self.pids = pids
        start = pids.map { ProcessUsage(of: $0) }
    }

    /// For each process: the CPU time since the meter began, and the peak memory since the process began.
    var usage: [ProcessUsage] {
        zip(pids, start).map { pid, start in
            var usage = ProcessUsage(of: pid)
            usage.cpuSeconds -= start.cpuSeconds
            return usage
        }
    }
}
