// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials
import Glibc

/// CPU time and peak resident memory of a process.
struct ProcessUsage: Codable {
    var cpuSeconds = 0.0
    var peakKilobytes = 0

    init(cpuSeconds: Double = 0, peakKilobytes: Int = 0) {
        self.cpuSeconds = cpuSeconds
        self.peakKilobytes = peakKilobytes
    }

    /// The usage that `wait4` or `getrusage` has returned.
    init(_ usage: rusage) {
        cpuSeconds = usage.ru_utime.seconds + usage.ru_stime.seconds
        peakKilobytes = usage.ru_maxrss
    }

    /// Reads the usage of a process and its running children, added up, from /proc.
    /// - Parameter pid: `nil` for this process, without its children.
    init(of pid: Int32?) {
        guard let pid else {
            var usage = rusage()
            getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
            let own = ProcessUsage(usage)
            (cpuSeconds, peakKilobytes) = (own.cpuSeconds, own.peakKilobytes)
            return
        }
        for process in [pid] + Self.children(of: pid) {
            guard let fields = Self.statistics(of: process), fields.count > 13 else { continue }
            cpuSeconds += Double((Int(fields[11]) ?? 0) + (Int(fields[12]) ?? 0)) / Double(sysconf(Int32(_SC_CLK_TCK)))
            peakKilobytes += Self.peak(of: process)
        }
    }

    /// The children of a process that run a program of this name.
    static func children(of pid: Int32, named name: String) -> [Int32] {
        children(of: pid).filter { text("/proc/\($0)/comm") == "\(name)\n" }
    }

    private static func text(_ path: String) -> String? {
        FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The fields of `/proc/PID/stat` after the name in parentheses: state, parent, …
    private static func statistics(of pid: Int32) -> [Substring]? {
        guard let text = text("/proc/\(pid)/stat"), let end = text.lastIndex(of: ")") else { return nil }
        return text[text.index(after: end)...].split(separator: " ")
    }

    private static func children(of pid: Int32) -> [Int32] {
        let all = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        return all.compactMap { Int32($0) }.filter { candidate in
            statistics(of: candidate).map { $0.count > 1 && $0[1] == "\(pid)" } ?? false
        }
    }

    /// The resident memory of a process; 0 if there is no such process.
    static func residentKilobytes(of pid: Int32) -> Int { kilobytes("VmRSS:", of: pid) }

    /// The anonymous resident memory of a process; 0 if there is no such process.
    static func anonymousKilobytes(of pid: Int32) -> Int { kilobytes("RssAnon:", of: pid) }

    /// The number of open descriptors of a process; 0 if there is no such process.
    static func descriptors(of pid: Int32) -> Int {
        (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/fd").count) ?? 0
    }

    private static func peak(of pid: Int32) -> Int { kilobytes("VmHWM:", of: pid) }

    /// The number in the line of `/proc/PID/status` that begins with `key`; 0 if there is none.
    private static func kilobytes(_ key: String, of pid: Int32) -> Int {
        let line = text("/proc/\(pid)/status")?.split(separator: "\n").first { $0.hasPrefix(key) }
        return line.flatMap { Int($0.filter(\.isNumber)) } ?? 0
    }
}

extension timeval {
    fileprivate var seconds: Double { Double(tv_sec) + Double(tv_usec) / 1_000_000 }
}
