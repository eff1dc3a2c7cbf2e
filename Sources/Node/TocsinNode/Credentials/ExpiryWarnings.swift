// SPDX-License-Identifier: Apache-2.0

/// Decides when to warn that a certificate expires: once each from 30, 7 and 1 days before, and when it has expired.
struct ExpiryWarnings {
    /// How soon the certificate expires. The raw value is the largest number of days left.
    enum Nearness: Int64, Comparable, CaseIterable {
        case month = 30
        case week = 7
        case day = 1
        case ended = 0

        static func < (one: Self, other: Self) -> Bool { one.rawValue > other.rawValue }
    }

    private var given: [String: (end: Int64, nearness: Nearness)] = [:]

    /// Returns the warning that is due for a certificate now and records it as given; `nil` if none is due.
    /// - Parameters:
    ///   - file: the certificate's file.
    ///   - end: when it expires, Unix time in seconds. A different time means a different certificate.
    ///   - now: Unix time in seconds.
    mutating func due(for file: String, end: Int64, now: Int64) -> Nearness? {
        guard let nearness = Nearness.allCases.last(where: { end - now <= $0.rawValue * 86_400 }) else { return nil }
        if let last = given[file], last.end == end, last.nearness >= nearness { return nil }
        given[file] = (end, nearness)
        return nearness
    }
}
