// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials
import HTTP2
import TNP

/// What Apple answers and what the node makes of it. Source of the reasons: Apple, "Handling notification responses
/// from APNs"; BadEnvironmentKeyInToken is reported by users.
public enum APNsAnswers {
    /// One row of the table.
    public struct Row: Sendable {
        /// HTTP status.
        public let status: Int
        /// `reason` in the body.
        public let reason: String
        public let ruling: Ruling
    }

    /// Every documented answer but 200.
    public static let table: [Row] = [
        Row(status: 400, reason: "BadCollapseId", ruling: .ourFault),
        Row(status: 400, reason: "BadDeviceToken", ruling: .badToken),
        Row(status: 400, reason: "BadExpirationDate", ruling: .ourFault),
        Row(status: 400, reason: "BadMessageId", ruling: .ourFault),
        Row(status: 400, reason: "BadPriority", ruling: .ourFault),
        Row(status: 400, reason: "BadTopic", ruling: .misconfigured),
        Row(status: 400, reason: "DeviceTokenNotForTopic", ruling: .foreignToken),
        Row(status: 400, reason: "DuplicateHeaders", ruling: .ourFault),
        Row(status: 400, reason: "IdleTimeout", ruling: .notProcessed.with(\.connection, .left)),
        Row(status: 400, reason: "InvalidPushType", ruling: .ourFault),
        Row(status: 400, reason: "MissingDeviceToken", ruling: .ourFault),
        Row(status: 400, reason: "MissingTopic", ruling: .misconfigured),
        Row(status: 400, reason: "PayloadEmpty", ruling: .ourFault),
        Row(status: 400, reason: "TopicDisallowed", ruling: .misconfigured),
        Row(status: 403, reason: "BadCertificate", ruling: .credentialRefused),
        Row(status: 403, reason: "BadCertificateEnvironment", ruling: .credentialRefused),
        Row(status: 403, reason: "ExpiredProviderToken", ruling: .credentialExpired),
        Row(status: 403, reason: "Forbidden", ruling: .misconfigured),
        Row(status: 403, reason: "InvalidProviderToken", ruling: .credentialRefused),
        Row(status: 403, reason: "MissingProviderToken", ruling: .misconfigured),
        Row(status: 403, reason: "UnrelatedKeyIdInToken", ruling: .credentialRefused),
        Row(status: 403, reason: "BadEnvironmentKeyIdInToken", ruling: .credentialRefused),
        Row(status: 403, reason: "BadEnvironmentKeyInToken", ruling: .credentialRefused),
        Row(status: 404, reason: "BadPath", ruling: .ourFault),
        Row(status: 405, reason: "MethodNotAllowed", ruling: .ourFault),
        Row(status: 410, reason: "ExpiredToken", ruling: .gone),
        Row(status: 410, reason: "Unregistered", ruling: .gone),
        Row(status: 413, reason: "PayloadTooLarge", ruling: .tooLarge),
        // Apple counts them by connection: the token stays as it is, and the connection goes.
        Row(
            status: 429, reason: "TooManyProviderTokenUpdates",
            ruling: .throttled(seconds: 60).with(\.connection, .left)),
        Row(status: 429, reason: "TooManyRequests", ruling: .deviceThrottled(seconds: 60)),
        Row(status: 500, reason: "InternalServerError", ruling: .unavailable(seconds: 30, minimum: 1)),
        Row(status: 503, reason: "ServiceUnavailable", ruling: .unavailable(seconds: 60, minimum: 5)),
        Row(status: 503, reason: "Shutdown", ruling: .notProcessed.with(\.connection, .left)),
    ]

    private static let byReason = Dictionary(uniqueKeysWithValues: table.map { ($0.reason, $0) })

    /// What is made of a reason that the table does not have: its status decides.
    static func ruling(ofStatus status: Int) -> Ruling {
        switch status {
        case 200: .delivered
        case 403: .misconfigured
        case 410: .gone
        case 413: .tooLarge
        case 429: .deviceThrottled(seconds: 60)
        case 400..<500: .ourFault
        default: .unavailable(seconds: 60, minimum: 5)
        }
    }

    /// What the node makes of an answer.
    public static func verdict(on response: Response) -> Verdict {
        if response.status == 200 {
            return Ruling.delivered.verdict(answer: "accepted", providerID: response.headers.text("apns-id"))
        }
        // {"reason":"Unregistered","timestamp":1700000000000}
        struct Body: Decodable {
            let reason: String?
            let timestamp: UInt64?
        }
        let body = try? JSONDecoder().decode(Body.self, from: Data(response.body))
        let row = body?.reason.flatMap { byReason[$0] }.flatMap { $0.status == response.status ? $0 : nil }
        var verdict = (row?.ruling ?? ruling(ofStatus: response.status)).verdict(
            answer: row?.reason ?? "unknown", retryAfter: retryAfter(response.headers), goneSince: body?.timestamp)
        if row?.reason == "TooManyProviderTokenUpdates" {
            verdict.detail = tooManyTokens
            verdict.outcome.text = tooManyTokens
        }
        return verdict
    }

    /// What TooManyProviderTokenUpdates means, in the log, in RESULT and in `tocsin check` (Apple, "Establishing a token-based
    /// connection to APNs": no more than one token in 20 minutes).
    public static let tooManyTokens =
        "Apple has got too many provider tokens of this key: another process makes them as well. One node for one key; try "
        + "again in 20 minutes"
}
