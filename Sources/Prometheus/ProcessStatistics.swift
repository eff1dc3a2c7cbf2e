// SPDX-License-Identifier: Apache-2.0

/// Statistics of a process from `/proc/self/stat`, as proc(5) describes it.
struct ProcessStatistics: Equatable {
    /// CPU time in user and kernel mode, in clock ticks.
    let cpuTicks: UInt64
    /// The start time of the process, in clock ticks since boot.
    let startTicks: UInt64
    /// The resident set size, in pages.
    let residentPages: UInt64

    /// Parses the content of `/proc/self/stat`; `nil` if it is malformed.
    init?(_ text: some Collection<UInt8>) {
        // The name in parentheses may contain any characters, even spaces and parentheses; only numbers follow it.
        let bytes = Array(text)
        guard let end = bytes.lastIndex(of: UInt8(ascii: ")")) else { return nil }
        let fields = bytes[(end + 1)...].split { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\n") }
        // proc(5) numbers the fields from 1; the first one after the name is number 3.
        func field(_ number: Int) -> UInt64? {
            guard fields.count > number - 3 else { return nil }
            return UInt64(String(decoding: fields[number - 3], as: UTF8.self))
        }
        guard let user = field(14), let system = field(15), let start = field(22), let resident = field(24) else {
            return nil
        }
        cpuTicks = user &+ system
        startTicks = start
        residentPages = resident
    }
}
