// SPDX-License-Identifier: Apache-2.0

import Settings

/// Turns the answer of FCM to a probe, a request with an invented device token, into a finding.
enum GoogleAdvice {
    /// The finding for an answer.
    /// - Parameters:
    ///   - app: the name of the app.
    ///   - projectID: the project of the service account.
    static func finding(on answer: ProbeAnswer, app: String, projectID: String) -> Finding {
        let (grade, text) = advice(answer, projectID: projectID)
        return Finding(.google, app, grade, text)
    }

    private static func advice(_ answer: ProbeAnswer, projectID: String) -> (Finding.Grade, String) {
        let word = answer.attemptResult.answer
        switch word {
        case "access-token-refused":
            let reason = answer.attemptResult.detail ?? "no reason given"
            return (.failed, "Google refuses an access token for this service account: \(reason)")
        case "access-token-unreachable":
            let reason = answer.attemptResult.detail ?? "no reason known"
            return (.failed, "the node cannot fetch an access token: \(reason)")
        case "QUOTA_EXCEEDED", "RESOURCE_EXHAUSTED":
            return (.warning, "\(word): the project's quota is exhausted; Google accepts the account")
        default: break
        }
        if let remedy = remedy(for: word, projectID: projectID) { return (.failed, "\(word): \(remedy)") }
        switch answer.attemptResult.disposition.failureSource {
        case .none, .deviceToken:
            return (.ok, "Google accepts the service account for the project \(projectID)")
        case .nodeOperator:
            let problem = "the project \(projectID) does not exist, or this account may not use it"
            return (.failed, "\(word): \(problem): use the file from Firebase unchanged")
        case .developer, .provider: return AppleAdvice.transport(answer.attemptResult)
        }
    }

    /// The meaning and the remedy of an answer that rejects the service account; `nil` for other answers.
    private static func remedy(for word: String, projectID: String) -> String? {
        switch word {
        case "PERMISSION_DENIED":
            "the service account may not send for the project \(projectID): give it the role “Firebase Cloud"
                + " Messaging API Admin”, and check that this API is enabled for the project"
        case "SENDER_ID_MISMATCH":
            "the service account and the app belong to different projects: use a service account of the app's project"
        case "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR":
            "Google rejects an access token that it has issued: check this machine's clock"
        default: nil
        }
    }
}
