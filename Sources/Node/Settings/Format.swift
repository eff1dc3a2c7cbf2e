// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Formats numbers, durations and dates for people.
package enum Format {
    /// Time of one proof-of-work hash on a desktop, in seconds (Docs/benchmarks.md).
    private static let secondsPerHash = 400e-9

    /// A number with thousands separators: `1,234,567`
    package static func count(_ number: Int) -> String {
        let digits = String(number.magnitude)
        var grouped = ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index) % 3 == 0 { grouped += "," }
            grouped.append(digit)
        }
        return number < 0 ? "−" + grouped : grouped
    }

    /// A number with its noun: `1 connection`, `2 connections`
    /// - Parameter many: the plural, if it is irregular.
    package static func count(_ number: Int, _ one: String, _ many: String? = nil) -> String {
        "\(count(number)) \(number == 1 ? one : many ?? one + "s")"
    }

    /// A size: `12.5 MiB`
    package static func bytes(_ bytes: Int) -> String {
        let units = ["KiB", "MiB", "GiB"]
        guard bytes >= 1024 else { return count(bytes, "byte") }
        var size = Double(bytes) / 1024
        var unit = 0
        while size >= 1023.95, unit < units.count - 1 {
            size /= 1024
            unit += 1
        }
        return "\(decimal(size, 1)) \(units[unit])"
    }

    /// A latency given in seconds: `85 µs`, `12 ms`, `1.2 s`; with at most three digits up to 999 s.
    package static func latency(_ seconds: Double) -> String {
        guard seconds.isFinite, seconds >= 0 else { return "–" }
        for (unit, factor) in [("µs", 1e6), ("ms", 1e3)] {
            let value = seconds * factor
            if value < 999.5 { return "\(decimal(value, value < 9.95 ? 1 : 0)) \(unit)" }
        }
        return seconds < 9.95 ? "\(decimal(seconds, 1)) s" : "\(count(Int(min(seconds, 1e9).rounded()))) s"
    }

    /// A time span given in seconds: `3 days 4 hours`, `12 minutes`, `40 seconds`
    package static func span(_ seconds: Int64) -> String {
        let units: [(String, Int64)] = [("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1)]
        let seconds = max(0, seconds)
        guard let first = units.firstIndex(where: { seconds >= $0.1 }) else { return "0 seconds" }
        let (name, length) = units[first]
        let head = count(Int(seconds / length), name)
        // Minutes are precise enough without seconds.
        guard first < 2 else { return head }
        let (smaller, part) = units[first + 1]
        let rest = seconds % length / part
        return rest == 0 ? head : "\(head) \(count(Int(rest), smaller))"
    }

    /// An effort, with the time it takes: `16,384 hashes, about 6.6 ms on a desktop`
    package static func effort(_ hashes: UInt32) -> String {
        "\(count(Int(hashes), "hash", "hashes")), about \(latency(Double(hashes) * secondsPerHash)) on a desktop"
    }

    /// The expiry of a credential: `expires in 12 days`, `expired on 2026-01-31`
    /// - Parameters:
    ///   - end: Unix time in seconds.
    ///   - now: Unix time in seconds.
    package static func expiry(_ end: Int64, at now: Int64) -> String {
        if end <= now { return "expired on \(date(end))" }
        let left = end - now
        return left < 86_400 ? "expires in \(span(left))" : "expires in \(count(Int(left / 86_400), "day"))"
    }

    // MARK: Time of day, UTC

    /// The time of day, from Unix time in seconds: `14:03`
    package static func clock(_ time: Int64) -> String {
        let second = secondOfDay(time)
        return "\(two(second / 3600)):\(two(second / 60 % 60))"
    }

    /// A moment, from Unix time in seconds: `2026-01-31 14:03 UTC`
    package static func time(_ time: Int64) -> String { "\(date(time)) \(clock(time)) UTC" }

    /// The time of day with seconds, from Unix time in seconds: `14:03:59`
    package static func clockWithSeconds(_ time: Int64) -> String { "\(clock(time)):\(two(secondOfDay(time) % 60))" }

    /// The date, from Unix time in seconds: `2026-01-31`
    package static func date(_ time: Int64) -> String {
        // Limits the result to the years 1 to 9999.
        var (seconds, date) = (time_t(min(max(time, -62_135_596_800), 253_402_300_799)), tm())
        gmtime_r(&seconds, &date)
        let year = String("000\(date.tm_year + 1900)".suffix(4))
        return "\(year)-\(two(Int64(date.tm_mon) + 1))-\(two(Int64(date.tm_mday)))"
    }

    private static func secondOfDay(_ time: Int64) -> Int64 { (time % 86_400 + 86_400) % 86_400 }

    private static func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }

    /// A number from 0 to 1,000,000 with 0 or 1 decimal places.
    package static func decimal(_ number: Double, _ digits: Int) -> String {
        guard digits > 0 else { return "\(Int(number.rounded()))" }
        let tenths = Int((number * 10).rounded())
        return "\(tenths / 10).\(tenths % 10)"
    }
}
