// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials
import HTTP2
import TNP

/// What Google answers and what the node makes of it. Sources: Firebase, "FCM error codes" (ErrorCode of the HTTP v1
/// API) and google.rpc.Status for what comes before FCM looks at a message.
package enum FCMAnswers {
    /// One row of the table.
    package struct Row: Sendable {
        /// HTTP status; nil: any.
        package let status: Int?
        /// `details[].errorCode` of an FcmError where there is one, else `status` of the error.
        package let code: String
        package let disposition: Disposition
    }

    /// Every documented answer but 200. `INVALID_ARGUMENT` stands for a request that is wrong in another place than the
    /// device token; ``badToken`` for one that is wrong there.
    package static let table: [Row] = [
        Row(status: nil, code: "UNSPECIFIED_ERROR", disposition: .unavailable(seconds: 60, minimum: 10)),
        Row(status: 400, code: "INVALID_ARGUMENT", disposition: .ourFault),
        Row(status: 404, code: "UNREGISTERED", disposition: .gone),
        Row(status: 403, code: "SENDER_ID_MISMATCH", disposition: .foreignToken),
        Row(status: 429, code: "QUOTA_EXCEEDED", disposition: .quotaExceeded),
        Row(status: 429, code: "RESOURCE_EXHAUSTED", disposition: .quotaExceeded),
        Row(status: 503, code: "UNAVAILABLE", disposition: .unavailable(seconds: 30, minimum: 10)),
        Row(status: 500, code: "INTERNAL", disposition: .unavailable(seconds: 30, minimum: 10)),
        // Only tokens of iOS and web apps come to this: a sender can make one up, so it must not stop the others.
        Row(status: 401, code: "THIRD_PARTY_AUTH_ERROR", disposition: .misconfigured.with(\.lane, .works)),
        Row(status: 401, code: "UNAUTHENTICATED", disposition: .credentialExpired),
        Row(status: 403, code: "PERMISSION_DENIED", disposition: .misconfigured),
    ]

    /// `INVALID_ARGUMENT` where the field in question is the device token.
    static let badToken = Disposition.badToken

    private static let byCode = Dictionary(uniqueKeysWithValues: table.map { ($0.code, $0) })

    /// What is made of a code that the table does not have: its status decides.
    static func disposition(ofStatus status: Int) -> Disposition {
        switch status {
        case 200: .delivered
        case 401: .credentialExpired
        case 403: .misconfigured
        // A wrong project or a wrong address, not a dead token: that says UNREGISTERED.
        case 404: .misconfigured
        case 429: .quotaExceeded
        case 400..<500: .ourFault
        default: .unavailable(seconds: 60, minimum: 10)
        }
    }

    /// What the node makes of an answer.
    package static func attemptResult(on response: Response) -> AttemptResult {
        if response.status == 200 {
            return Disposition.delivered.attemptResult(answer: "accepted", providerID: messageName(in: response.body))
        }
        let error = (try? JSONDecoder().decode(ErrorBody.self, from: Data(response.body)))?.error
        let code = error?.details?.lazy.compactMap(\.errorCode).first ?? error?.status
        let row = code.flatMap { byCode[$0] }.flatMap { row in
            row.status == nil || row.status == response.status ? row : nil
        }
        var disposition = row?.disposition ?? disposition(ofStatus: response.status)
        if row?.code == "INVALID_ARGUMENT", error?.concernsToken == true { disposition = badToken }
        if disposition == .quotaExceeded, error?.concernsDeviceQuota == true {
            disposition = .deviceThrottled(seconds: 60)
        }
        return disposition.attemptResult(answer: row?.code ?? "unknown", retryAfter: retryAfter(response.headers))
    }

    /// Of `{"name": "projects/…/messages/…"}` the value; it holds nothing that JSON would escape.
    static func messageName(in body: [UInt8]) -> String? {
        let parts = body.split(separator: UInt8(ascii: "\""), omittingEmptySubsequences: false)
        guard parts.count >= 4, parts[1].elementsEqual("name".utf8) else { return nil }
        return String(validating: parts[3], as: UTF8.self)
    }

    private struct ErrorBody: Decodable {
        struct Failure: Decodable {
            let status: String?
            let details: [Detail]?

            /// FCM's own word without a field is about the registration token; a field says for itself.
            var concernsToken: Bool {
                let fields = (details ?? []).flatMap { $0.fieldViolations ?? [] }.map(\.field)
                return fields.isEmpty
                    ? details?.contains { $0.errorCode == "INVALID_ARGUMENT" } ?? false
                    : fields.contains("message.token")
            }

            /// A QuotaFailure says whose quota it is; Google's words for the device's are "device message rate".
            var concernsDeviceQuota: Bool {
                (details ?? []).contains { detail in
                    (detail.violations ?? []).contains { ($0.subject ?? "").contains("device") }
                }
            }
        }
        struct Detail: Decodable {
            let errorCode: String?
            let fieldViolations: [Violation]?
            let violations: [QuotaViolation]?
        }
        struct QuotaViolation: Decodable {
            let subject: String?
        }
        struct Violation: Decodable {
            let field: String?
        }
        let error: Failure?
    }
}
