// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials
import HTTP2
import TNP

/// The outcome table for FCM's answers. Sources: Firebase, "FCM error codes" (ErrorCode of the HTTP v1 API), and
/// google.rpc.Status for errors that occur before FCM reads the message.
package enum FCMAnswers {
    /// One row of the table.
    package struct Row: Sendable {
        /// HTTP status; `nil` for any.
        package let status: Int?
        /// `details[].errorCode` of the FcmError if there is one, otherwise `status` of the error.
        package let code: String
        /// How the node handles the answer.
        package let disposition: Disposition
    }

    /// Every documented answer except 200. The row for `INVALID_ARGUMENT` applies if a field other than the device
    /// token is invalid; ``badToken`` applies if the device token is.
    package static let table: [Row] = [
        Row(status: nil, code: "UNSPECIFIED_ERROR", disposition: .unavailable(seconds: 60, minimum: 10)),
        Row(status: 400, code: "INVALID_ARGUMENT", disposition: .invalidRequest),
        Row(status: 404, code: "UNREGISTERED", disposition: .gone),
        Row(status: 403, code: "SENDER_ID_MISMATCH", disposition: .foreignToken),
        Row(status: 429, code: "QUOTA_EXCEEDED", disposition: .quotaExceeded),
        Row(status: 429, code: "RESOURCE_EXHAUSTED", disposition: .quotaExceeded),
        Row(status: 503, code: "UNAVAILABLE", disposition: .unavailable(seconds: 30, minimum: 10)),
        Row(status: 500, code: "INTERNAL", disposition: .unavailable(seconds: 30, minimum: 10)),
        // Only device tokens of iOS and web apps cause this answer. A sender can invent such a token, so the answer
        // must not open the breaker.
        Row(status: 401, code: "THIRD_PARTY_AUTH_ERROR", disposition: .misconfigured.with(\.lane, .success)),
        Row(status: 401, code: "UNAUTHENTICATED", disposition: .credentialExpired),
        Row(status: 403, code: "PERMISSION_DENIED", disposition: .misconfigured),
    ]

    /// The disposition of `INVALID_ARGUMENT` if the invalid field is the device token.
    static let badToken = Disposition.badToken

    private static let byCode = Dictionary(uniqueKeysWithValues: table.map { ($0.code, $0) })

    /// The fallback for a code that the table does not list: the HTTP status decides.
    static func disposition(ofStatus status: Int) -> Disposition {
        switch status {
        case 200: .delivered
        case 401: .credentialExpired
        case 403: .misconfigured
        // The project or the path is wrong; for an invalid token FCM answers UNREGISTERED.
        case 404: .misconfigured
        case 429: .quotaExceeded
        case 400..<500: .invalidRequest
        default: .unavailable(seconds: 60, minimum: 10)
        }
    }

    /// Classifies an answer by the table, or as a ``ForeignAnswer`` if it does not have the form of FCM's.
    package static func attemptResult(on response: Response) -> AttemptResult {
        if response.status == 200, let name = messageName(in: response.body) {
            return Disposition.delivered.attemptResult(answer: "accepted", providerID: name)
        }
        guard response.status != 200,
            let error = (try? JSONDecoder().decode(ErrorBody.self, from: Data(response.body)))?.error
        else { return ForeignAnswer.attemptResult(on: response, inPlaceOf: "Google") }
        let code = error.details?.lazy.compactMap(\.errorCode).first ?? error.status
        let row = code.flatMap { byCode[$0] }.flatMap { row in
            row.status == nil || row.status == response.status ? row : nil
        }
        var disposition = row?.disposition ?? disposition(ofStatus: response.status)
        if row?.code == "INVALID_ARGUMENT", error.concernsToken { disposition = badToken }
        if disposition == .quotaExceeded, error.concernsDeviceQuota {
            disposition = .deviceThrottled(seconds: 60)
        }
        return disposition.attemptResult(answer: row?.code ?? "unknown", retryAfter: retryAfter(response.headers))
    }

    /// The value of `name` in `{"name": "projects/…/messages/…"}`, which contains nothing that JSON escapes.
    static func messageName(in body: [UInt8]) -> String? {
        let parts = body.split(separator: UInt8(ascii: "\""), omittingEmptySubsequences: false)
        guard parts.count >= 4, parts[1].elementsEqual("name".utf8) else { return nil }
        return String(validating: parts[3], as: UTF8.self)
    }

    private struct ErrorBody: Decodable {
        struct Failure: Decodable {
            let status: String?
            let details: [Detail]?

            /// Whether the device token is invalid: the violations name the field `message.token`, or they name no
            /// field and an FcmError reports `INVALID_ARGUMENT`.
            var concernsToken: Bool {
                let fields = (details ?? []).flatMap { $0.fieldViolations ?? [] }.map(\.field)
                return fields.isEmpty
                    ? details?.contains { $0.errorCode == "INVALID_ARGUMENT" } ?? false
                    : fields.contains("message.token")
            }

            /// Whether the device's quota is exceeded. The subject of a QuotaFailure names the quota; for a device it
            /// is "device message rate".
            var concernsDeviceQuota: Bool {
                (details ?? []).contains { detail in
                    (detail.violations ?? []).contains { ($0.subject ?? "").contains("device") }
                }
            }
        }
        struct Detail: Decodable {
            let errorCode: String?
            let fieldViolations: [Violation]?
            let violations: [Violation]?
        }
        /// A FieldViolation or a QuotaFailure.Violation.
        struct Violation: Decodable {
            let field: String?
            let subject: String?
        }
        let error: Failure?
    }
}
