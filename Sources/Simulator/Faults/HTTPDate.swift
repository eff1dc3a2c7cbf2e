// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Dates as HTTP writes them: IMF-fixdate (RFC 9110 §5.6.7).
enum HTTPDate {
    private static let weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    /// The last second of the year 9999: later years have more digits than there is room for.
    private static let last: Int64 = 253_402_300_799

    /// For instance `Sun, 06 Nov 1994 08:49:37 GMT`.
    /// - Parameter unixTime: in seconds; outside the years 1970 to 9999 the nearest second of them is written.
    static func text(_ unixTime: Int64) -> String {
        var seconds = time_t(min(max(unixTime, 0), last))
        var parts = tm()
        gmtime_r(&seconds, &parts)
        func padded(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let day = "\(weekdays[Int(parts.tm_wday)]), \(padded(parts.tm_mday)) \(months[Int(parts.tm_mon)])"
        let time = "\(padded(parts.tm_hour)):\(padded(parts.tm_min)):\(padded(parts.tm_sec))"
        return "\(day) \(parts.tm_year + 1900) \(time) GMT"
    }
}
