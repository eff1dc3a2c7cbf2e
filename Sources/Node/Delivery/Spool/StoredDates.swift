// SPDX-License-Identifier: Apache-2.0

import Providers
import TNP
import Time

/// When stored envelopes expire. Rows have dates of the wall clock, which may have stepped since; delivery goes by
/// ``ExpiryClock``.
struct StoredDates {
    /// Dates of this time and earlier are those of a clock that was never set.
    static let latestImplausible = ExpiryClock.earliestPlausible + Int64(Envelope.maximumTTL)
    /// The number of steps of the clock that are kept; of more, the oldest count as one.
    private static let maximumSteps = 32
    /// The latest date that is taken from a row, in the year 36812: sums of dates do not overflow.
    private static let latestDate: Int64 = 1 << 40

    /// Seconds by which the wall clock has stepped ahead since the start.
    private(set) var steps: Int64 = 0
    /// The earlier values of ``steps``, each with the last row that was stored under it.
    private var earlier: [(lastRow: Int64, steps: Int64)] = []
    private var lastRow: Int64 = 0
    private var firstRow: Int64 = 1
    private var start: Int64 = 0

    /// - Parameters:
    ///   - lastRow: the highest row of earlier processes.
    ///   - now: the time of the ``ExpiryClock``.
    mutating func begin(after lastRow: Int64, at now: Int64) {
        (self.lastRow, firstRow, start) = (lastRow, lastRow + 1, now)
    }

    /// Records a row that was stored under the current ``steps``.
    mutating func stored(_ row: Int64) { lastRow = max(lastRow, row) }

    /// Records by how many seconds the wall clock has stepped ahead since the start.
    mutating func clockStepped(_ steps: Int64) {
        guard steps != self.steps else { return }
        earlier.append((lastRow, self.steps))
        if earlier.count > Self.maximumSteps {
            // With the smaller value a row expires later.
            earlier[1].steps = min(earlier[0].steps, earlier[1].steps)
            earlier.removeFirst()
        }
        self.steps = steps
    }

    /// What the wall clock, after its steps, shows at a time of the ``ExpiryClock``.
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
    ///   - now: the time of the ``ExpiryClock``.
    func expiry(ofRow row: Int64?, _ stored: SpooledEnvelope, now: Int64) -> Int64 {
        let whole = now + Int64(stored.envelope.ttl)
        let dated = min(max(0, stored.expires), Self.latestDate)
        // A clock that was never set dated the row, in an earlier process or at another node.
        let isForeign = row.map { $0 < firstRow } ?? true
        if isForeign, dated <= Self.latestImplausible, now >= ExpiryClock.earliestPlausible {
            return row == nil ? whole : start + Int64(stored.envelope.ttl)
        }
        let then = row.flatMap { row in earlier.first { row <= $0.lastRow }?.steps } ?? steps
        return min(dated - then, whole)
    }
}
