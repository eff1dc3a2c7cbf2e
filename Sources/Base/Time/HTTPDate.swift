// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Reads and writes dates in HTTP's format IMF-fixdate, for instance `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7).
/// Does not read the two obsolete formats, nor leap seconds.
package enum HTTPDate {
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    private static let weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    /// The last second of the year 9999: the format has four digits for the year.
    private static let last: Int64 = 253_402_300_799

    /// Reads a date.
    /// - Returns: seconds since 1970, negative before; `nil` unless the text has exactly this format, including the
    ///   case of names and the correct weekday.
    package static func unixTime(_ text: String) -> Int64? {
        let parts = text.split { " :".contains($0) }
        guard text.utf8.count == 29, parts.count == 8, let month = months.firstIndex(of: String(parts[2])) else {
            return nil
        }
        let numbers = [1, 3, 4, 5, 6].compactMap { Int32(parts[$0]) }
        guard numbers.count == 5 else { return nil }
        var date = tm()
        date.tm_mon = Int32(month)
        (date.tm_mday, date.tm_year) = (numbers[0], numbers[1] &- 1900)
        (date.tm_hour, date.tm_min, date.tm_sec) = (numbers[2], numbers[3], numbers[4])
        let time = Int64(timegm(&date))
        // Rejects other spellings, and dates and times that do not exist.
        return written(time) == text ? time : nil
    }

    /// Writes a date.
    /// - Parameter unixTime: in seconds; a time outside the years 1970 to 9999 is clamped to them.
    package static func text(_ unixTime: Int64) -> String { written(min(max(unixTime, 0), last)) }

    private static func written(_ unixTime: Int64) -> String {
        var (seconds, date) = (time_t(unixTime), tm())
        gmtime_r(&seconds, &date)
        let day = "\(weekdays[Int(date.tm_wday)]), \(twoDigits(date.tm_mday)) \(months[Int(date.tm_mon)])"
        let time = [date.tm_hour, date.tm_min, date.tm_sec].map(twoDigits).joined(separator: ":")
        return "\(day) \(Int(date.tm_year) + 1900) \(time) GMT"
    }

    private static func twoDigits(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
