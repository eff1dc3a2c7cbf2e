// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Providers
import TNP
import Time

/// Results that follow from what the node knows rather than from an attempt.
extension AttemptResult {
    /// The result for an envelope that the node holds back for this time: its device is paused, its breaker is open,
    /// the node has no room for it, or the node shuts down.
    static func heldBack(_ reason: Reason, for time: Duration, _ answer: String) -> AttemptResult {
        let milliseconds = UInt32(clamping: Int64(time.milliseconds.rounded(.up)))
        return AttemptResult(
            .retry(reason, after: max(1, milliseconds)), disposition: .heldBack(reason), answer: answer,
            retryAfter: milliseconds / 1000 + 1)
    }

    /// Replaces the refusal of a device token during a surge of token refusals: the node does not trust the refusal, so
    /// the sender gets RETRY and keeps its pairing.
    /// - Parameter pause: the time until the push service may be asked again.
    static func duringSurge(_ result: AttemptResult, for pause: Duration) -> AttemptResult {
        let seconds = UInt32(clamping: pause.components.seconds)
        return AttemptResult(
            .retry(
                .credentialsRefused, after: UInt32(clamping: UInt64(seconds) * 1000),
                text: "the push service currently rejects most device tokens"),
            disposition: .heldBack(.credentialsRefused), answer: result.answer, retryAfter: seconds)
    }

    /// Replaces GONE if a push service accepted the device token after the reported time, or if the phone's handle may
    /// have another device token by now.
    static func contradicted(_ result: AttemptResult) -> AttemptResult {
        AttemptResult(
            .retry(.providerUnreachable, after: 60_000), disposition: .heldBack(.providerUnreachable),
            answer: result.answer, retryAfter: 60)
    }
}
