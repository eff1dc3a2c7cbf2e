// SPDX-License-Identifier: Apache-2.0

/// Reads and writes dates in HTTP's format IMF-fixdate, for instance `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7).
/// Does not read the two obsolete formats.
package enum HTTPDate {
    // A `#` is a digit, a `?` a letter of a name; any other character matches itself.
    private static let pattern = Array("???, ## ??? #### ##:##:## GMT".utf8)
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    // 1970 began on a Thursday.
    private static let weekdays = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    private static let secondsPerDay: Int64 = 86_400
    /// The last second of the year 9999: the format has four digits for the year.
    private static let last: Int64 = 253_402_300_799

    /// Reads a date.
    /// - Returns: seconds since 1970, negative before; `nil` unless the text has exactly this format, including the
    ///   case of names and the correct weekday. A leap second is read as the second after it.
    package static func unixTime(_ text: some Collection<UInt8>) -> Int64? {
        let bytes = Array(text.prefix(pattern.count + 1))
        guard bytes.count == pattern.count, zip(bytes, pattern).allSatisfy({ matches($0, $1) }) else { return nil }
        func name(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }
        func number(_ range: Range<Int>) -> Int {
            bytes[range].reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
        }
        guard let monthIndex = months.firstIndex(of: name(8..<11)) else { return nil }
        let date = CalendarDate(year: number(12..<16), month: monthIndex + 1, day: number(5..<7))
        let (hour, minute, second) = (number(17..<19), number(20..<22), number(23..<25))
        guard date.isValid, hour < 24, minute < 60, second <= 60 else { return nil }
        let days = date.daysSince1970
        guard name(0..<3) == weekdays[(days % 7 + 7) % 7] else { return nil }
        return Int64(days) * secondsPerDay + Int64(hour * 3600 + minute * 60 + second)
    }

    /// Reads a date.
    package static func unixTime(_ text: String) -> Int64? { unixTime(text.utf8) }

    /// Writes a date.
    /// - Parameter unixTime: in seconds; a time outside the years 1970 to 9999 is clamped to them.
    package static func text(_ unixTime: Int64) -> String {
        let seconds = min(max(unixTime, 0), last)
        let days = Int(seconds / secondsPerDay)
        let second = Int(seconds % secondsPerDay)
        let date = CalendarDate(daysSince1970: days)
        let time = [second / 3600, second / 60 % 60, second % 60].map(twoDigits).joined(separator: ":")
        return "\(weekdays[days % 7]), \(twoDigits(date.day)) \(months[date.month - 1]) \(date.year) \(time) GMT"
    }

    private static func twoDigits(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }

    private static func matches(_ byte: UInt8, _ expected: UInt8) -> Bool {
        switch expected {
        case UInt8(ascii: "#"): (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        case UInt8(ascii: "?"): true
        default: byte == expected
        }
    }
}
