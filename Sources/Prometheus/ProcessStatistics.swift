// SPDX-License-Identifier: Apache-2.0

/// What `/proc/self/stat` says of a process: proc(5).
struct ProcessStatistics: Equatable {
    /// CPU time in user and kernel mode, in clock ticks.
    let cpuTicks: UInt64
    /// When the process started, in clock ticks since the machine did.
    let startTicks: UInt64
    /// Memory that is in RAM, in pages.
    let residentPages: UInt64

    /// Nil where the text is not of that form.
    init?(_ text: some Collection<UInt8>) {
        // The name in parentheses may hold anything, spaces and parentheses too; after it come numbers only.
        let bytes = Array(text)
        guard let end = bytes.lastIndex(of: UInt8(ascii: ")")) else { return nil }
        let fields = bytes[(end + 1)...].split { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\n") }
        // The manual counts from 1, and the first after the name is its third.
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
