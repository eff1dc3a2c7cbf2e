// SPDX-License-Identifier: Apache-2.0

import TNP
import Time

/// The answer to a submission that is not admitted.
package struct Refusal: Error, Equatable, Sendable {
    /// The submission's outcome; `nil` if the connection closes without one.
    package var outcome: Outcome?
    /// The puzzle to announce before the outcome, if the submission lacks a sufficient proof.
    package var puzzle: Puzzle?
    /// The GOAWAY to send after the outcome, if the circuit is blocked.
    package var goAway: GoAway?

    package init(_ outcome: Outcome?, puzzle: Puzzle? = nil, goAway: GoAway? = nil) {
        self.outcome = outcome
        self.puzzle = puzzle
        self.goAway = goAway
    }

    /// A refusal with RETRY after `wait`.
    static func retry(_ reason: Reason, after wait: Duration, _ text: String? = nil) -> Refusal {
        Refusal(.retry(reason, after: wait.wireMilliseconds, text: text))
    }
}

extension Duration {
    /// Whole milliseconds for RESULT and GOAWAY, rounded up so that a sender that waits this long does not retry too
    /// early.
    package var wireMilliseconds: UInt32 {
        UInt32(min((wholeNanoseconds + 999_999) / 1_000_000, 4_000_000_000))
    }
}
