// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Metrics of this process under the names that all Prometheus clients use. Each scrape reads them from `/proc/self` and
/// omits those that cannot be read.
package enum ProcessCollector {
    /// The entries of these metrics in the catalogue.
    package static let families = [
        MetricFamily(
            "process_cpu_seconds_total", .counter, help: "Total user and system CPU time spent in seconds."),
        MetricFamily("process_resident_memory_bytes", .gauge, help: "Resident memory size in bytes."),
        MetricFamily("process_open_fds", .gauge, help: "Number of open file descriptors."),
        MetricFamily("process_max_fds", .gauge, help: "Maximum number of open file descriptors."),
        MetricFamily(
            "process_start_time_seconds", .gauge, help: "Start time of the process since unix epoch in seconds."),
    ]

    /// Registers the metrics.
    /// - Parameter registry: a registry whose catalogue contains ``families``.
    package static func register(in registry: PrometheusRegistry) {
        let ticksPerSecond = Double(sysconf(Int32(_SC_CLK_TCK)))
        let pageSize = Double(sysconf(Int32(_SC_PAGESIZE)))
        registry.registerCallback("process_cpu_seconds_total") {
            statistics.map { Double($0.cpuTicks) / ticksPerSecond }
        }
        registry.registerCallback("process_resident_memory_bytes") {
            statistics.map { Double($0.residentPages) * pageSize }
        }
        registry.registerCallback("process_open_fds") { openFiles.map { Double($0) } }
        registry.registerCallback("process_max_fds") { fileLimit }
        // Computed once, so that a change of the system clock does not change the start time.
        let start = statistics.map {
            seconds(of: CLOCK_REALTIME) - seconds(of: CLOCK_BOOTTIME) + Double($0.startTicks) / ticksPerSecond
        }
        registry.registerCallback("process_start_time_seconds") { start }
    }

    private static var statistics: ProcessStatistics? {
        let file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        // 52 numbers and a name of at most 64 bytes: one read returns it all.
        let text = [UInt8](unsafeUninitializedCapacity: 2048) { buffer, count in
            count = max(0, read(file, buffer.baseAddress, buffer.count))
        }
        return ProcessStatistics(text)
    }

    private static var openFiles: Int? {
        guard let directory = opendir("/proc/self/fd") else { return nil }
        defer { closedir(directory) }
        var entries = 0
        while readdir(directory) != nil { entries += 1 }
        // Not counted: ".", ".." and the descriptor of this directory itself.
        return entries - 3
    }

    private static var fileLimit: Double? {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return nil }
        return limit.rlim_cur == rlim_t.max ? .infinity : Double(limit.rlim_cur)
    }

    private static func seconds(of clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1_000_000_000
    }
}
