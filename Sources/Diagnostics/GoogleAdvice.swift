// SPDX-License-Identifier: Apache-2.0

import Providers

/// What Google's answer to a question with a made-up device token says, and what to do.
enum GoogleAdvice {
    /// - Parameters:
    ///   - app: its name.
    ///   - projectID: of the service account.
    static func finding(on answer: ProbeAnswer, app: String, projectID: String) -> Finding {
        let (grade, text) = advice(answer, projectID: projectID)
        return Finding(.google, app, grade, text)
    }

    private static func advice(_ answer: ProbeAnswer, projectID: String) -> (Finding.Grade, String) {
        let word = answer.attemptResult.answer
        switch word {
        case "access-token-refused":
            return (
                .failed,
                "Google gives this service account no access token. Is its key still listed in the Google Cloud console"
                    + " under IAM, Service accounts, Keys? Is this machine's clock right?"
            )
        case "access-token-unreachable":
            return (.failed, "no access token could be fetched: see the lines above; try again later")
        case "PERMISSION_DENIED":
            return (
                .failed,
                "\(word): the service account may not send for the project \(projectID): give it the role “Firebase Cloud"
                    + " Messaging API Admin”, and see that this API is enabled for the project"
            )
        case "SENDER_ID_MISMATCH":
            return (
                .failed,
                "\(word): the service account is of another project than the app: take the file of the app's own project"
            )
        case "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR":
            return (
                .failed, "\(word): Google does not take its own access token: is this machine's clock right?"
            )
        case "QUOTA_EXCEEDED", "RESOURCE_EXHAUSTED":
            return (.warning, "\(word): the project has used up its allowance for now; the account itself is taken")
        default: break
        }
        switch answer.attemptResult.disposition.failureSource {
        case .none, .deviceToken:
            return (.ok, "Google takes the service account for the project \(projectID)")
        case .nodeOperator:
            return (
                .failed,
                "\(word): Google knows no project \(projectID) that this account may use: take the file as Firebase gives it"
            )
        case .developer, .provider: return AppleAdvice.transport(answer.attemptResult)
        }
    }
}
