// SPDX-License-Identifier: Apache-2.0

import Providers
import TNP
import Time

/// When stored envelopes expire. Rows have dates of the wall clock, which may have stepped since; delivery goes by
/// ``ExpiryClock``.
struct StoredDates {
    /// Dates of this time and earlier are those of a clock that was never set.
    static let latestImplausible = ExpiryClock.earliestPlausible + Int64(Envelope.maximumTTL)
    /// Further steps count as the last one.
    private static let mostSteps = 32

    /// Seconds by which the wall clock has stepped ahead since the start.
    private(set) var steps: Int64 = 0
    /// The value of ``steps`` until a row.
    private var earlier: [(lastRow: Int64, steps: Int64)] = []
    private var lastRow: Int64 = 0

    /// - Parameter lastRow: the highest row of earlier runs.
    mutating func begin(after lastRow: Int64) { self.lastRow = lastRow }

    /// Notes a row that was stored now.
    mutating func stored(_ row: Int64) { lastRow = max(lastRow, row) }

    /// Notes the steps of the wall clock so far.
    mutating func clockStepped(_ steps: Int64) {
        guard steps != self.steps else { return }
        if earlier.count < Self.mostSteps { earlier.append((lastRow, self.steps)) }
        self.steps = steps
    }

    /// A time of the ``ExpiryClock`` on the wall clock of now.
    func wall(_ time: Int64) -> Int64 { time + steps }

    /// The same for an expiry.
    func wall(_ expiry: Expiry) -> Expiry {
        switch expiry {
        case .nowOrNever: expiry
        case .at(let time): .at(wall(time))
        }
    }

    /// The time of the ``ExpiryClock`` at which a stored envelope expires.
    /// - Parameters:
    ///   - expires: its date, Unix time in seconds.
    ///   - now: of the ``ExpiryClock``.
    func expiry(ofRow row: Int64, dated expires: Int64, ttl: UInt32, now: Int64) -> Int64 {
        let expiry = expires - (earlier.first { row <= $0.lastRow }?.steps ?? steps)
        // An earlier run dated it by a clock that was never set.
        guard expires <= Self.latestImplausible, expiry < ExpiryClock.earliestPlausible,
            now >= ExpiryClock.earliestPlausible
        else { return expiry }
        return now + Int64(ttl)
    }
}
