// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Providers
import TNP
import Time

/// Results that follow from what the node knows rather than from an attempt.
extension AttemptResult {
    /// Holds an envelope back: the node suspends attempts on this lane, or for this device, for this time.
    static func heldBack(_ reason: Reason, for time: Duration, _ answer: String) -> AttemptResult {
        let milliseconds = UInt32(clamping: Int64(time.milliseconds.rounded(.up)))
        return AttemptResult(
            .retry(reason, after: max(1, milliseconds)), disposition: .heldBack(reason), answer: answer,
            retryAfter: milliseconds / 1000 + 1)
    }

    /// Replaces the refusal of a device token during a surge of refusals: the node does not believe it, and the sender
    /// keeps its pairing.
    static func duringSurge(_ attemptResult: AttemptResult) -> AttemptResult {
        AttemptResult(
            .retry(.credentialsRefused, after: 300_000, text: "the push service rejects most device tokens at present"),
            disposition: .heldBack(.credentialsRefused), answer: attemptResult.answer, retryAfter: 300)
    }

    /// Replaces GONE if a push service accepted the device token after the reported time.
    static func contradicted(_ attemptResult: AttemptResult) -> AttemptResult {
        AttemptResult(
            .retry(.providerUnreachable, after: 60_000), disposition: .heldBack(.providerUnreachable),
            answer: attemptResult.answer, retryAfter: 60)
    }
}
