// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials
import HTTP2
import TNP

/// The outcome table for APNs' answers. Source of the reasons: Apple, "Handling notification responses from APNs";
/// BadEnvironmentKeyInToken is known from reports of users only.
package enum APNsAnswers {
    /// One row of the table.
    package struct Row: Sendable {
        /// HTTP status.
        package let status: Int
        /// `reason` in the body.
        package let reason: String
        /// How the node handles the answer.
        package let disposition: Disposition
    }

    /// The reasons that have the same status and disposition.
    private static let groups: [(status: Int, disposition: Disposition, reasons: [String])] = [
        (
            400, .invalidRequest,
            [
                "BadCollapseId", "BadExpirationDate", "BadMessageId", "BadPriority", "DuplicateHeaders",
                "InvalidPushType", "MissingDeviceToken", "PayloadEmpty",
            ]
        ),
        (400, .badToken, ["BadDeviceToken"]),
        (400, .foreignToken, ["DeviceTokenNotForTopic"]),
        (400, .misconfigured, ["BadTopic", "MissingTopic", "TopicDisallowed"]),
        (400, .notProcessed.with(\.connection, .drain), ["IdleTimeout"]),
        (403, .misconfigured, ["Forbidden", "MissingProviderToken"]),
        (403, .credentialExpired, ["ExpiredProviderToken"]),
        // The node's clock may have been wrong when the node made the token.
        (403, .credentialRefused.with(\.credential, .renewed), ["InvalidProviderToken"]),
        (
            403, .credentialRefused,
            [
                "BadCertificate", "BadCertificateEnvironment", "UnrelatedKeyIdInToken", "BadEnvironmentKeyIdInToken",
                "BadEnvironmentKeyInToken",
            ]
        ),
        (404, .invalidRequest, ["BadPath"]),
        (405, .invalidRequest, ["MethodNotAllowed"]),
        (410, .gone, ["ExpiredToken", "Unregistered"]),
        (413, .tooLarge, ["PayloadTooLarge"]),
        // Apple counts token updates per connection, so the node keeps the token and replaces the connection.
        (429, .throttled(seconds: 60).with(\.connection, .drain), ["TooManyProviderTokenUpdates"]),
        (429, .deviceThrottled(seconds: 60).with(\.mayThrottleLane, true), ["TooManyRequests"]),
        (500, .unavailable(seconds: 30, minimum: 1), ["InternalServerError"]),
        (503, .unavailable(seconds: 60, minimum: 5), ["ServiceUnavailable"]),
        (503, .notProcessed.with(\.connection, .drain), ["Shutdown"]),
    ]

    /// Every documented answer except 200.
    package static let table: [Row] = groups.flatMap { group in
        group.reasons.map { Row(status: group.status, reason: $0, disposition: group.disposition) }
    }

    private static let byReason = Dictionary(uniqueKeysWithValues: table.map { ($0.reason, $0) })

    /// The fallback for a reason that the table does not list: the HTTP status decides.
    static func disposition(ofStatus status: Int) -> Disposition {
        switch status {
        case 200: .delivered
        case 403: .misconfigured
        case 410: .gone
        case 413: .tooLarge
        case 429: .deviceThrottled(seconds: 60).with(\.mayThrottleLane, true)
        case 400..<500: .invalidRequest
        default: .unavailable(seconds: 60, minimum: 5)
        }
    }

    /// The body of every answer but 200: `{"reason":"Unregistered","timestamp":1700000000000}`.
    private struct Body: Decodable {
        let reason: String
        let timestamp: UInt64?

        private enum Key: CodingKey { case reason, timestamp }

        init(from decoder: any Decoder) throws {
            let fields = try decoder.container(keyedBy: Key.self)
            reason = try fields.decode(String.self, forKey: .reason)
            timestamp = try? fields.decode(UInt64.self, forKey: .timestamp)
        }
    }

    /// Classifies an answer by the table, or as a ``ForeignAnswer`` if it does not have the form of APNs'.
    package static func attemptResult(on response: Response) -> AttemptResult {
        if response.status == 200, let field = response.headers["apns-id"], !field.isEmpty,
            let id = MessageID(field)
        {
            var outcome = Outcome(.delivered)
            outcome.messageID = id
            return AttemptResult(outcome, disposition: .delivered, answer: "accepted")
        }
        guard response.status != 200, let body = try? JSONDecoder().decode(Body.self, from: Data(response.body)) else {
            return ForeignAnswer.attemptResult(on: response, inPlaceOf: "Apple")
        }
        let row = byReason[body.reason].flatMap { $0.status == response.status ? $0 : nil }
        var attemptResult = (row?.disposition ?? disposition(ofStatus: response.status)).attemptResult(
            answer: row?.reason ?? "unknown", retryAfter: retryAfter(response.headers), goneSince: body.timestamp)
        if row?.reason == "TooManyProviderTokenUpdates" {
            attemptResult.detail = tooManyTokens
            attemptResult.outcome.text = tooManyTokens
        }
        return attemptResult
    }

    /// The explanation of TooManyProviderTokenUpdates in the log, in RESULT and in `tocsin check` (Apple, "Establishing
    /// a token-based connection to APNs": at most one token in 20 minutes).
    package static let tooManyTokens =
        "too many provider tokens for this key: another process also issues them. Run one node per key, and retry in "
        + "20 minutes"
}
