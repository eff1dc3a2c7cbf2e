// SPDX-License-Identifier: Apache-2.0

/// Measures the resource usage of several processes from its creation on.
struct UsageMeter {
    private let pids: [Int32?]
    private let start: [ProcessUsage]

    /// - Parameter pids: the processes; `nil` stands for this one.
    init(_ pids: [Int32?]) {
        self.pids = pids
        start = pids.map { ProcessUsage(of: $0) }
    }

    /// For each process, the CPU time since the creation of the meter, and the peak memory since the process began.
    var usage: [ProcessUsage] {
        zip(pids, start).map { pid, start in
            var usage = ProcessUsage(of: pid)
            usage.cpuSeconds -= start.cpuSeconds
            return usage
        }
    }
}
