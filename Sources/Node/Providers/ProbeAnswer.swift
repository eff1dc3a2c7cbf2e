// SPDX-License-Identifier: Apache-2.0

import HTTP2
import Time

/// A push service's answer to a probe, a request that delivers no notification.
package struct ProbeAnswer: Sendable {
    /// The answer, classified by the outcome table.
    package let attemptResult: AttemptResult
    /// Seconds by which this machine's clock is ahead of the push service's; negative if it is behind, `nil` if the
    /// answer has no `date`.
    package let clockAhead: Int64?

    /// Creates an answer.
    /// - Parameter response: the push service's response, if there was one.
    package init(_ attemptResult: AttemptResult, _ response: Response? = nil) {
        self.attemptResult = attemptResult
        clockAhead = response.flatMap { ClockSkew($0.headers, now: UnixTime.now)?.seconds }
    }
}
