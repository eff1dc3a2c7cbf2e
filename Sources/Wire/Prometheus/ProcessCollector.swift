// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Metrics of this process under the names that all Prometheus clients use. Each scrape reads them, and omits those
/// that cannot be read.
package enum ProcessCollector {
    /// The entries of these metrics in the catalogue.
    package static let families = [cpu, memory, openDescriptors, maximumDescriptors, startTime]

    private static let cpu = MetricFamily(
        "process_cpu_seconds_total", .counter, help: "Total user and system CPU time spent in seconds.")
    private static let memory = MetricFamily(
        "process_resident_memory_bytes", .gauge, help: "Resident memory size in bytes.")
    private static let openDescriptors = MetricFamily(
        "process_open_fds", .gauge, help: "Number of open file descriptors.")
    private static let maximumDescriptors = MetricFamily(
        "process_max_fds", .gauge, help: "Maximum number of open file descriptors.")
    private static let startTime = MetricFamily(
        "process_start_time_seconds", .gauge, help: "Start time of the process since unix epoch in seconds.")

    /// Registers the metrics.
    /// - Parameter registry: a registry whose catalogue contains ``families``.
    package static func register(in registry: PrometheusRegistry) {
        let pageSize = Double(sysconf(Int32(_SC_PAGESIZE)))
        registry.registerCallback(cpu) { seconds(of: CLOCK_PROCESS_CPUTIME_ID) }
        registry.registerCallback(memory) { residentPages.map { $0 * pageSize } }
        registry.registerCallback(openDescriptors) { openFiles.map { Double($0) } }
        registry.registerCallback(maximumDescriptors) { fileLimit }
        // The process registers its metrics as soon as it has started.
        let start = seconds(of: CLOCK_REALTIME)
        registry.registerCallback(startTime) { start }
    }

    private static var residentPages: Double? {
        let file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        // Seven numbers, of which the second is the resident set size in pages.
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = max(0, read(file, &bytes, bytes.count))
        let fields = bytes.prefix(count).split(separator: UInt8(ascii: " "))
        return fields.count > 1 ? Double(String(decoding: fields[1], as: UTF8.self)) : nil
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
