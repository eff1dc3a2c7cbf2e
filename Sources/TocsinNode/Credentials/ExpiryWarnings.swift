// SPDX-License-Identifier: Apache-2.0

/// Decides when to warn that a certificate expires: once each at 30, 7 and 1 days before, and when it has expired.
struct ExpiryWarnings {
    /// How soon the certificate expires.
    enum Nearness: Int, Comparable {
        case month = 30
        case week = 7
        case day = 1
        case ended = 0

        static func < (one: Self, other: Self) -> Bool { one.rawValue > other.rawValue }

        init?(secondsLeft: Int64) {
            switch secondsLeft {
            case ...0: self = .ended
            case ...86_400: self = .day
            case ...(7 * 86_400): self = .week
            case ...(30 * 86_400): self = .month
            default: return nil
            }
        }
    }

    private var given: [String: (end: Int64, nearness: Nearness)] = [:]

    /// Returns the warning that is due for a certificate now and records it as given; `nil` if none is due.
    /// - Parameters:
    ///   - file: the certificate's file.
    ///   - end: when it expires, Unix time in seconds. A different time means a different certificate.
    ///   - now: Unix time in seconds.
    mutating func due(for file: String, end: Int64, now: Int64) -> Nearness? {
        guard let nearness = Nearness(secondsLeft: end - now) else { return nil }
        if let last = given[file], last.end == end, last.nearness >= nearness { return nil }
        given[file] = (end, nearness)
        return nearness
    }
}
