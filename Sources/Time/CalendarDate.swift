// SPDX-License-Identifier: Apache-2.0

/// A date of the proleptic Gregorian calendar, converted to and from days since 1970-01-01.
///
/// The arithmetic is Howard Hinnant's `days_from_civil` and `civil_from_days`: if years begin in March,
/// their leap day is the last day, and 400 years are always 146,097 days.
package struct CalendarDate: Equatable, Sendable {
    /// The year; 0 is 1 BC.
    package let year: Int
    /// The month, 1 to 12.
    package let month: Int
    /// The day of the month, 1 to 31.
    package let day: Int

    /// Days from 0000-03-01 to 1970-01-01.
    private static let epoch = 719_468
    private static let daysPerEra = 146_097

    /// - Parameters: a date that exists; see ``isValid``.
    package init(year: Int, month: Int, day: Int) {
        (self.year, self.month, self.day) = (year, month, day)
    }

    /// The date this many days after 1970-01-01, or before it if negative.
    package init(daysSince1970 days: Int) {
        let days = days + Self.epoch
        let era = (days >= 0 ? days : days - Self.daysPerEra + 1) / Self.daysPerEra
        let dayOfEra = days - era * Self.daysPerEra
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }

    /// Days since 1970-01-01; negative before it.
    package var daysSince1970: Int {
        let shiftedYear = month > 2 ? year : year - 1
        let era = (shiftedYear >= 0 ? shiftedYear : shiftedYear - 399) / 400
        let yearOfEra = shiftedYear - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * Self.daysPerEra + dayOfEra - Self.epoch
    }

    /// Whether the calendar has this date.
    package var isValid: Bool {
        (1...12).contains(month) && day >= 1 && CalendarDate(daysSince1970: daysSince1970) == self
    }
}
