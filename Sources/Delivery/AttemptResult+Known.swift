// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Providers
import TNP

/// Verdicts that come of what the node knows, and not of an attempt.
extension AttemptResult {
    /// Nothing is sent to this lane, or to this device, for so long.
    static func held(back reason: Reason, for time: Duration, _ answer: String) -> AttemptResult {
        let milliseconds = UInt32(clamping: Int64(time.milliseconds.rounded(.up)))
        return AttemptResult(
            .retry(reason, after: max(1, milliseconds)), disposition: .heldBack(reason), answer: answer,
            retryAfter: milliseconds / 1000 + 1)
    }

    /// So many device tokens are refused that none is believed to be: the sender keeps its pairing.
    static func duringSurge(_ attemptResult: AttemptResult) -> AttemptResult {
        AttemptResult(
            .retry(.credentialsRefused, after: 300_000, text: "the push service refuses many devices at present"),
            disposition: .heldBack(.credentialsRefused), answer: attemptResult.answer, retryAfter: 300)
    }

    /// Gone since a time after which the device token was good: the word is older than what the node has seen.
    static func contradicted(_ attemptResult: AttemptResult) -> AttemptResult {
        AttemptResult(
            .retry(.providerUnreachable, after: 60_000), disposition: .heldBack(.providerUnreachable),
            answer: attemptResult.answer, retryAfter: 60)
    }
}
