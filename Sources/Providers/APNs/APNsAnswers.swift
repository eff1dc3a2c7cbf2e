// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials
import HTTP2
import TNP

/// The outcome table for APNs' answers. Source of the reasons: Apple, "Handling notification responses from APNs";
/// users have reported BadEnvironmentKeyInToken.
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

    /// Every documented answer except 200.
    package static let table: [Row] = [
        Row(status: 400, reason: "BadCollapseId", disposition: .invalidRequest),
        Row(status: 400, reason: "BadDeviceToken", disposition: .badToken),
        Row(status: 400, reason: "BadExpirationDate", disposition: .invalidRequest),
        Row(status: 400, reason: "BadMessageId", disposition: .invalidRequest),
        Row(status: 400, reason: "BadPriority", disposition: .invalidRequest),
        Row(status: 400, reason: "BadTopic", disposition: .misconfigured),
        Row(status: 400, reason: "DeviceTokenNotForTopic", disposition: .foreignToken),
        Row(status: 400, reason: "DuplicateHeaders", disposition: .invalidRequest),
        Row(status: 400, reason: "IdleTimeout", disposition: .notProcessed.with(\.connection, .drain)),
        Row(status: 400, reason: "InvalidPushType", disposition: .invalidRequest),
        Row(status: 400, reason: "MissingDeviceToken", disposition: .invalidRequest),
        Row(status: 400, reason: "MissingTopic", disposition: .misconfigured),
        Row(status: 400, reason: "PayloadEmpty", disposition: .invalidRequest),
        Row(status: 400, reason: "TopicDisallowed", disposition: .misconfigured),
        Row(status: 403, reason: "BadCertificate", disposition: .credentialRefused),
        Row(status: 403, reason: "BadCertificateEnvironment", disposition: .credentialRefused),
        Row(status: 403, reason: "ExpiredProviderToken", disposition: .credentialExpired),
        Row(status: 403, reason: "Forbidden", disposition: .misconfigured),
        Row(status: 403, reason: "InvalidProviderToken", disposition: .credentialRefused),
        Row(status: 403, reason: "MissingProviderToken", disposition: .misconfigured),
        Row(status: 403, reason: "UnrelatedKeyIdInToken", disposition: .credentialRefused),
        Row(status: 403, reason: "BadEnvironmentKeyIdInToken", disposition: .credentialRefused),
        Row(status: 403, reason: "BadEnvironmentKeyInToken", disposition: .credentialRefused),
        Row(status: 404, reason: "BadPath", disposition: .invalidRequest),
        Row(status: 405, reason: "MethodNotAllowed", disposition: .invalidRequest),
        Row(status: 410, reason: "ExpiredToken", disposition: .gone),
        Row(status: 410, reason: "Unregistered", disposition: .gone),
        Row(status: 413, reason: "PayloadTooLarge", disposition: .tooLarge),
        // Apple counts token updates per connection, so the node keeps the token and replaces the connection.
        Row(
            status: 429, reason: "TooManyProviderTokenUpdates",
            disposition: .throttled(seconds: 60).with(\.connection, .drain)),
        Row(status: 429, reason: "TooManyRequests", disposition: .deviceThrottled(seconds: 60)),
        Row(status: 500, reason: "InternalServerError", disposition: .unavailable(seconds: 30, minimum: 1)),
        Row(status: 503, reason: "ServiceUnavailable", disposition: .unavailable(seconds: 60, minimum: 5)),
        Row(status: 503, reason: "Shutdown", disposition: .notProcessed.with(\.connection, .drain)),
    ]

    private static let byReason = Dictionary(uniqueKeysWithValues: table.map { ($0.reason, $0) })

    /// The fallback for a reason that the table does not list: the HTTP status decides.
    static func disposition(ofStatus status: Int) -> Disposition {
        switch status {
        case 200: .delivered
        case 403: .misconfigured
        case 410: .gone
        case 413: .tooLarge
        case 429: .deviceThrottled(seconds: 60)
        case 400..<500: .invalidRequest
        default: .unavailable(seconds: 60, minimum: 5)
        }
    }

    /// Classifies an answer by the table.
    package static func attemptResult(on response: Response) -> AttemptResult {
        if response.status == 200 {
            return Disposition.delivered.attemptResult(answer: "accepted", providerID: response.headers.text("apns-id"))
        }
        // {"reason":"Unregistered","timestamp":1700000000000}
        struct Body: Decodable {
            let reason: String?
            let timestamp: UInt64?
        }
        let body = try? JSONDecoder().decode(Body.self, from: Data(response.body))
        let row = body?.reason.flatMap { byReason[$0] }.flatMap { $0.status == response.status ? $0 : nil }
        var attemptResult = (row?.disposition ?? disposition(ofStatus: response.status)).attemptResult(
            answer: row?.reason ?? "unknown", retryAfter: retryAfter(response.headers), goneSince: body?.timestamp)
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
