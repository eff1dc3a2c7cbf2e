// SPDX-License-Identifier: Apache-2.0

import TNP

/// What a sender is told whose submission is not admitted.
package struct Refusal: Error, Equatable, Sendable {
    /// The submission's outcome; nil where the connection ends without one.
    package var outcome: Outcome?
    /// What this sender's connection is asked for from now on, where that is more than it was told.
    package var puzzle: Puzzle?
    /// Said after the outcome, where it was one too many.
    package var goAway: GoAway?

    package init(_ outcome: Outcome?, puzzle: Puzzle? = nil, goAway: GoAway? = nil) {
        self.outcome = outcome
        self.puzzle = puzzle
        self.goAway = goAway
    }

    /// Not now, but after so long.
    static func retry(_ reason: Reason, after wait: Duration, _ text: String? = nil) -> Refusal {
        Refusal(.retry(reason, after: wait.wireMilliseconds, text: text))
    }
}

extension Duration {
    /// Whole milliseconds as RESULT and GOAWAY carry them, rounded up: who waits for so long does not come too early.
    var wireMilliseconds: UInt32 {
        let (seconds, attoseconds) = components
        guard seconds < 4_000_000 else { return 4_000_000_000 }
        let (millisecond, roundedUp) = (1_000_000_000_000_000 as Int64, max(0, attoseconds) + 999_999_999_999_999)
        return UInt32(max(0, seconds)) * 1000 + UInt32(roundedUp / millisecond)
    }
}
