// SPDX-License-Identifier: Apache-2.0

import HTTP2
import TNP

/// The outcome table for the answers of push servers. Sources: RFC 8030 §5 to §8, RFC 8292 §4; ntfy's documentation,
/// "UnifiedPush" (507).
package enum WebPushAnswers {
    /// One row of the table.
    package struct Row: Sendable {
        /// The HTTP statuses.
        package let statuses: ClosedRange<Int>
        /// The name in logs and metrics.
        package let answer: String
        /// How the node handles the answer.
        package let disposition: Disposition
    }

    /// All statuses from 200 to 599; the first row that contains one applies. What a server says about itself affects
    /// no other server: each has a lane of its own.
    package static let table: [Row] = [
        Row(statuses: 200...299, answer: "accepted", disposition: .delivered),
        // The node follows no redirect: it would lead to a server that nobody has checked.
        Row(statuses: 300...399, answer: "redirect", disposition: .foreignToken),
        // About this subscription, which a sender has named (RFC 8292 §4.2: it is restricted to another key).
        Row(statuses: 401...401, answer: "unauthorized", disposition: .subscriptionRefused),
        Row(statuses: 403...403, answer: "forbidden", disposition: .subscriptionRefused),
        Row(statuses: 404...404, answer: "not-found", disposition: .gone),
        Row(statuses: 408...408, answer: "request-timeout", disposition: .unavailable(seconds: 30, minimum: 10)),
        Row(statuses: 410...410, answer: "gone", disposition: .gone),
        Row(statuses: 413...413, answer: "too-large", disposition: .tooLarge),
        Row(statuses: 429...429, answer: "too-many-requests", disposition: .quotaExceeded),
        Row(statuses: 400...499, answer: "bad-request", disposition: .invalidRequest),
        // ntfy: no phone has subscribed to the topic lately. The answer concerns this phone only.
        Row(
            statuses: 507...507, answer: "no-subscriber",
            disposition: .unavailable(seconds: 60, minimum: 10).with(\.lane, .success)),
        Row(statuses: 500...599, answer: "server-error", disposition: .unavailable(seconds: 60, minimum: 10)),
    ]

    /// Classifies an answer by the table, or by what ``PushServerRules`` say about its server.
    /// - Parameters:
    ///   - retryAfter: the value of `Retry-After`, if there is one.
    ///   - host: the server's name.
    package static func attemptResult(status: Int, retryAfter: String?, from host: String) -> AttemptResult {
        let own = PushServerRules.of(host)?.answers ?? []
        guard let row = (own + table).first(where: { $0.statuses.contains(status) }) else {
            return Disposition.invalidRequest.attemptResult(answer: "unknown")
        }
        // A date is possible (RFC 9110 §10.2.3), but push servers send seconds.
        return row.disposition.attemptResult(
            answer: row.answer, retryAfter: retryAfter.flatMap { UInt32($0, radix: 10) })
    }
}
