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
        registry.registerCallback(cpu) { seconds(of: CLOCK_PROCESS_CPUTIME_ID) }
        registry.registerCallback(memory) { residentBytes.map { Double($0) } }
        registry.registerCallback(openDescriptors) { openFiles.map { Double($0) } }
        registry.registerCallback(maximumDescriptors) { fileLimit.map { Double($0) } ?? .infinity }
        // The process registers its metrics as soon as it has started.
        let start = seconds(of: CLOCK_REALTIME)
        registry.registerCallback(startTime) { start }
    }

    /// Resident memory in bytes; `nil` if it is unknown.
    package static var residentBytes: Int? {
        let file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        // Seven numbers, of which the second is the resident set size in pages.
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = max(0, read(file, &bytes, bytes.count))
        let fields = bytes.prefix(count).split(separator: UInt8(ascii: " "))
        let pages = fields.count > 1 ? Int(String(decoding: fields[1], as: UTF8.self)) : nil
        return pages.map { $0 * sysconf(Int32(_SC_PAGESIZE)) }
    }

    /// The machine's memory in bytes.
    package static var memoryLimit: Int { sysconf(Int32(_SC_PHYS_PAGES)) * sysconf(Int32(_SC_PAGESIZE)) }

    /// The free space and the size of the file system that holds `path`, in bytes; `nil` if they are unknown.
    package static func space(at path: String) -> (free: Int, size: Int)? {
        var status = statvfs()
        guard statvfs(path, &status) == 0, status.f_blocks > 0 else { return nil }
        let unit = status.f_frsize
        return (Int(clamping: status.f_bavail &* unit), Int(clamping: status.f_blocks &* unit))
    }

    /// The number of open descriptors; `nil` if it is unknown.
    package static var openFiles: Int? {
        guard let directory = opendir("/proc/self/fd") else { return nil }
        defer { closedir(directory) }
        var entries = 0
        while readdir(directory) != nil { entries += 1 }
        // Not counted: ".", ".." and the descriptor of this directory itself.
        return entries - 3
    }

    /// The limit of open descriptors; `nil` if there is none, or it is unknown.
    package static var fileLimit: Int? {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return nil }
        return limit.rlim_cur == rlim_t.max ? nil : Int(clamping: limit.rlim_cur)
    }

    private static func seconds(of clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1_000_000_000
    }
}
