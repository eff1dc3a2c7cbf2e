// SPDX-License-Identifier: Apache-2.0

import Providers
import TNP
import Time

/// When stored envelopes expire. Rows have dates of the wall clock, which may have stepped since; delivery goes by
/// ``ExpiryClock``.
struct StoredDates {
    /// Dates of this time and earlier are those of a clock that was never set.
    static let latestImplausible = ExpiryClock.earliestPlausible + Int64(Envelope.maximumTTL)
    /// Of more steps, the oldest count as one.
    private static let maximumSteps = 32
    /// No clock shows a later time, in the year 36812.
    private static let latestDate: Int64 = 1 << 40

    /// Seconds by which the wall clock has stepped ahead since the start.
    private(set) var steps: Int64 = 0
    /// The value of ``steps`` until a row.
    private var earlier: [(lastRow: Int64, steps: Int64)] = []
    private var lastRow: Int64 = 0
    private var firstRow: Int64 = 1
    private var start: Int64 = 0

    /// - Parameters:
    ///   - lastRow: the highest row of earlier runs.
    ///   - now: of the ``ExpiryClock``.
    mutating func begin(after lastRow: Int64, at now: Int64) {
        (self.lastRow, firstRow, start) = (lastRow, lastRow + 1, now)
    }

    /// Notes a row that was stored now.
    mutating func stored(_ row: Int64) { lastRow = max(lastRow, row) }

    /// Notes the steps of the wall clock so far.
    mutating func clockStepped(_ steps: Int64) {
        guard steps != self.steps else { return }
        earlier.append((lastRow, self.steps))
        if earlier.count > Self.maximumSteps {
            // The smaller one, by which a row expires later.
            earlier[1].steps = min(earlier[0].steps, earlier[1].steps)
            earlier.removeFirst()
        }
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

    /// When a stored envelope expires, by the ``ExpiryClock``: never later than its whole ttl from now.
    /// - Parameters:
    ///   - row: `nil` for a row of another node.
    ///   - now: of the ``ExpiryClock``.
    func expiry(ofRow row: Int64?, _ stored: SpooledEnvelope, now: Int64) -> Int64 {
        let whole = now + Int64(stored.envelope.ttl)
        let dated = min(max(0, stored.expires), Self.latestDate)
        // A clock that was never set dated it, in an earlier run or at another node.
        let isForeign = row.map { $0 < firstRow } ?? true
        if isForeign, dated <= Self.latestImplausible, now >= ExpiryClock.earliestPlausible {
            return row == nil ? whole : start + Int64(stored.envelope.ttl)
        }
        let then = row.flatMap { row in earlier.first { row <= $0.lastRow }?.steps } ?? steps
        return min(dated - then, whole)
    }
}
