// SPDX-License-Identifier: Apache-2.0

/// A date as HTTP writes it: IMF-fixdate (RFC 9110 §5.6.7). The two obsolete forms, which nobody may send any more,
/// are not read.
enum HTTPDate {
    // A # is a digit, a ? a letter of a name; all else stands for itself.
    private static let form = Array("???, ## ??? #### ##:##:## GMT".utf8)
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    // 1970 began on a Thursday.
    private static let weekdays = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]

    /// Reads, for instance, `Sun, 06 Nov 1994 08:49:37 GMT`.
    /// - Returns: seconds since 1970, negative before; nil where it is not exactly such a date, names in their case and
    ///   the right day of the week included. A leap second counts as the second after it.
    static func unixTime(_ text: some Collection<UInt8>) -> Int64? {
        let bytes = Array(text.prefix(form.count + 1))
        guard bytes.count == form.count, zip(bytes, form).allSatisfy({ isOfForm($0, $1) }) else { return nil }
        func name(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }
        func number(_ range: Range<Int>) -> Int {
            bytes[range].reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
        }
        guard let monthIndex = months.firstIndex(of: name(8..<11)) else { return nil }
        let (year, month, day) = (number(12..<16), monthIndex + 1, number(5..<7))
        let (hour, minute, second) = (number(17..<19), number(20..<22), number(23..<25))
        guard (1...length(ofMonth: month, year: year)).contains(day), hour < 24, minute < 60, second <= 60 else {
            return nil
        }
        let days = daysSince1970(year: year, month: month, day: day)
        guard name(0..<3) == weekdays[(days % 7 + 7) % 7] else { return nil }
        return Int64(days * 86_400 + hour * 3600 + minute * 60 + second)
    }

    /// The same for text.
    static func unixTime(_ text: String) -> Int64? { unixTime(text.utf8) }

    private static func isOfForm(_ byte: UInt8, _ expected: UInt8) -> Bool {
        switch expected {
        case UInt8(ascii: "#"): (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        case UInt8(ascii: "?"): true
        default: byte == expected
        }
    }

    private static func length(ofMonth month: Int, year: Int) -> Int {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    /// Days from 1970-01-01 in the Gregorian calendar, also before it was made.
    private static func daysSince1970(year: Int, month: Int, day: Int) -> Int {
        // Years that begin in March have their leap day last. Counted from 400 years before the year 0, so that nothing
        // is negative; 400 years are 146,097 days.
        let year = (month > 2 ? year : year - 1) + 400
        let daysBeforeMonth = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5
        let daysSinceMarch = 365 * year + year / 4 - year / 100 + year / 400 + daysBeforeMonth + day - 1
        return daysSinceMarch - 146_097 - 719_468
    }
}
