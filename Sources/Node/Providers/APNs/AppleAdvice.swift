// SPDX-License-Identifier: Apache-2.0

import Settings

/// Turns the answer of APNs to a probe, a request with an impossible device token, into a finding.
enum AppleAdvice {
    private static let keys = "developer.apple.com, Certificates, Identifiers & Profiles, Keys"

    /// The finding for an answer.
    /// - Parameters:
    ///   - app: the name of the app.
    ///   - isCertificate: whether the node authenticates with a certificate instead of a token.
    static func finding(
        on answer: ProbeAnswer, app: String, environment: PushService.Environment, topic: String, isCertificate: Bool
    ) -> Finding {
        let (grade, text) = advice(answer, topic: topic, isCertificate: isCertificate)
        let isOther = environment == .development && otherEnvironment.contains(answer.attemptResult.answer)
        return Finding(
            .apple, "\(app) \(environment.rawValue)", isOther ? .warning : grade,
            isOther ? "\(text). Only builds from Xcode need this environment" : text)
    }

    /// Answers that mean that the credential is for the other environment only. For the development environment they are
    /// just a warning: the production environment alone is enough for App Store builds.
    private static let otherEnvironment: Set<String> = [
        "BadCertificateEnvironment", "BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken",
    ]

    private static func advice(
        _ answer: ProbeAnswer, topic: String, isCertificate: Bool
    ) -> (Finding.Grade, String) {
        let word = answer.attemptResult.answer
        switch word {
        case "accepted", "BadDeviceToken", "DeviceTokenNotForTopic", "Unregistered", "ExpiredToken":
            // APNs checks the device token last.
            let credential = isCertificate ? "certificate" : "key, key_id, team_id"
            return (.ok, "Apple accepts the \(credential) and the topic \(topic)")
        case "TooManyProviderTokenUpdates": return (.warning, "\(word): \(APNsAnswers.tooManyTokens)")
        default:
            guard let remedy = remedy(for: word, topic: topic, isCertificate: isCertificate) else {
                return transport(answer.attemptResult)
            }
            return (.failed, "\(word): \(remedy)")
        }
    }

    /// The meaning and the remedy of an answer that rejects the credential or the topic; `nil` for other answers.
    private static func remedy(for word: String, topic: String, isCertificate: Bool) -> String? {
        switch word {
        case "InvalidProviderToken":
            "Apple does not know this key for this team. Compare key_id, team_id and key_file with \(keys)."
                + " A revoked key gets the same answer"
        case "ExpiredProviderToken": "the token has expired by Apple's clock: correct this machine's clock"
        case "BadTopic", "TopicDisallowed", "MissingTopic":
            "\(topic) is not an app of this \(isCertificate ? "certificate" : "team, or the key does not cover it"):"
                + " compare topic with the app's bundle id at developer.apple.com, under Identifiers"
        case "BadCertificate": "Apple rejects this certificate: create a new one for \(topic)"
        case "BadCertificateEnvironment": "the certificate is for Apple's other environment"
        case "BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken":
            "the key is for Apple's other environment: create one for both, under \(keys)"
        case "UnrelatedKeyIdInToken": "the key does not cover this app: allow it for \(topic) under \(keys)"
        case "Forbidden", "MissingProviderToken": "Apple rejects this credential: create a new one"
        default: nil
        }
    }

    /// The grade and text for answers that do not concern the credential.
    static func transport(_ attemptResult: AttemptResult) -> (Finding.Grade, String) {
        if attemptResult.answer == ForeignAnswer.answer, let detail = attemptResult.detail { return (.failed, detail) }
        let words = attemptResult.detail.map { "\(attemptResult.answer): \($0)" } ?? attemptResult.answer
        return switch attemptResult.disposition.failureSource {
        case .provider: (.failed, "no conclusive answer (\(words)): see the lines above; try again later")
        case .developer: (.failed, "\(words): the push service calls the probe invalid: please report this as a bug")
        case .nodeOperator: (.failed, "\(words): the push service rejects this node: check its credential")
        case .none, .deviceToken: (.ok, "the push service accepts the credential")
        }
    }
}
