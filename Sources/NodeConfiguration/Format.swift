// SPDX-License-Identifier: Apache-2.0

import Time

/// Formats numbers, durations and dates for people.
package enum Format {
    /// Seconds that a desktop needs for a hash of the proof of work (Docs/admission.md).
    private static let secondsPerHash = 400e-9

    /// `1,234,567`
    package static func count(_ number: Int) -> String {
        let digits = String(number.magnitude)
        var grouped = ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index) % 3 == 0 { grouped += "," }
            grouped.append(digit)
        }
        return number < 0 ? "−" + grouped : grouped
    }

    /// `1 connection`, `2 connections`; `many` where it has a plural of its own.
    package static func count(_ number: Int, _ one: String, _ many: String? = nil) -> String {
        "\(count(number)) \(number == 1 ? one : many ?? one + "s")"
    }

    /// Bytes: `12.5 MiB`
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

    /// How long something takes, in seconds: `85 µs`, `12 ms`, `1.2 s`; with three digits at most, up to 999 s.
    package static func latency(_ seconds: Double) -> String {
        guard seconds.isFinite, seconds >= 0 else { return "–" }
        for (unit, factor) in [("µs", 1e6), ("ms", 1e3)] {
            let value = seconds * factor
            if value < 999.5 { return "\(decimal(value, value < 9.95 ? 1 : 0)) \(unit)" }
        }
        return seconds < 9.95 ? "\(decimal(seconds, 1)) s" : "\(count(Int(min(seconds, 1e9).rounded()))) s"
    }

    /// A stretch of time in seconds: `3 days 4 hours`, `12 minutes`, `40 seconds`
    package static func span(_ seconds: Int64) -> String {
        let units: [(String, Int64)] = [("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1)]
        let seconds = max(0, seconds)
        guard let first = units.firstIndex(where: { seconds >= $0.1 }) else { return "0 seconds" }
        let (name, length) = units[first]
        let head = count(Int(seconds / length), name)
        // Minutes need no seconds beside them.
        guard first < 2 else { return head }
        let (smaller, part) = units[first + 1]
        let rest = seconds % length / part
        return rest == 0 ? head : "\(head) \(count(Int(rest), smaller))"
    }

    /// Expected hashes as somebody feels them: `16,384 hashes, about 7 ms of a desktop`
    package static func effort(_ hashes: UInt32) -> String {
        "\(count(Int(hashes), "hash", "hashes")), about \(latency(Double(hashes) * secondsPerHash)) of a desktop"
    }

    /// Whether a route works.
    /// - Parameter breaker: `closed`, `open`; of another state, somebody tries.
    package static func breaker(_ breaker: String) -> String {
        switch breaker {
        case "closed": "works"
        case "open": "stopped: tries again"
        default: "trying whether it works again"
        }
    }

    /// When a credential ends: `ends in 12 days`, `ended on 2026-01-31`
    /// - Parameters: Unix time in seconds.
    package static func end(_ end: Int64, at now: Int64) -> String {
        if end <= now { return "ended on \(date(end))" }
        let left = end - now
        return left < 86_400 ? "ends in \(span(left))" : "ends in \(count(Int(left / 86_400), "day"))"
    }

    // MARK: Time of day, UTC

    /// Unix time in seconds: `14:03`
    package static func clock(_ time: Int64) -> String {
        let second = secondOfDay(time)
        return "\(two(second / 3600)):\(two(second / 60 % 60))"
    }

    /// `14:03:59`
    package static func clockWithSeconds(_ time: Int64) -> String { "\(clock(time)):\(two(secondOfDay(time) % 60))" }

    /// `2026-01-31`
    package static func date(_ time: Int64) -> String {
        // The years 1 to 9999.
        let days = min(max((time - secondOfDay(time)) / 86_400, -719_162), 2_932_896)
        let date = CalendarDate(daysSince1970: Int(days))
        return "\(String("000\(date.year)".suffix(4)))-\(two(Int64(date.month)))-\(two(Int64(date.day)))"
    }

    private static func secondOfDay(_ time: Int64) -> Int64 { (time % 86_400 + 86_400) % 86_400 }

    private static func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }

    /// With so many digits behind the point, 0 or 1; of numbers from 0 to a million.
    package static func decimal(_ number: Double, _ digits: Int) -> String {
        guard digits > 0 else { return "\(Int(number.rounded()))" }
        let tenths = Int((number * 10).rounded())
        return "\(tenths / 10).\(tenths % 10)"
    }
}
