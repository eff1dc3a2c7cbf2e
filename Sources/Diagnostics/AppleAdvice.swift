// SPDX-License-Identifier: Apache-2.0

import Providers

/// What Apple's answer to a question with an impossible device token says, and what to do.
enum AppleAdvice {
    /// Which of Apple's environments.
    enum Environment: String, CaseIterable, Sendable {
        case production, development
    }

    private static let keys = "developer.apple.com, Certificates, Identifiers & Profiles, Keys"

    /// - Parameters:
    ///   - app: its name.
    ///   - isCertificate: whether the node shows a certificate rather than a token.
    static func finding(
        on answer: ProbeAnswer, app: String, environment: Environment, topic: String, isCertificate: Bool
    ) -> Finding {
        let (grade, text) = advice(answer, topic: topic, isCertificate: isCertificate)
        let isOther = environment == .development && otherEnvironment.contains(answer.attemptResult.answer)
        return Finding(
            .apple, "\(app) \(environment.rawValue)", isOther ? .warning : grade,
            isOther ? "\(text). Only builds from Xcode need it" : text)
    }

    /// A credential for the other environment alone is enough for phones with the app from the store.
    private static let otherEnvironment: Set<String> = [
        "BadCertificateEnvironment", "BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken",
    ]

    private static func advice(
        _ answer: ProbeAnswer, topic: String, isCertificate: Bool
    ) -> (Finding.Grade, String) {
        let word = answer.attemptResult.answer
        switch word {
        case "accepted", "BadDeviceToken", "DeviceTokenNotForTopic", "Unregistered", "ExpiredToken":
            // It looks at the device token last.
            return (
                .ok, "Apple takes the \(isCertificate ? "certificate" : "key, key_id, team_id") and the topic \(topic)"
            )
        case "InvalidProviderToken":
            return (
                .failed,
                "\(word): Apple does not know this key of this team. Compare key_id, team_id and key_file with \(keys);"
                    + " a key that was revoked is refused like this, too"
            )
        case "ExpiredProviderToken":
            return (.failed, "\(word): the token is too old by Apple's clock: set this machine's clock right")
        case "BadTopic", "TopicDisallowed", "MissingTopic":
            return (
                .failed,
                "\(word): \(topic) is no app of this "
                    + (isCertificate ? "certificate" : "team, or the key is not allowed for it")
                    + ": compare topic with the app's bundle id, under Identifiers"
            )
        case "BadCertificate":
            return (.failed, "\(word): Apple does not take this certificate: make a new one for \(topic)")
        case "BadCertificateEnvironment":
            return (.failed, "\(word): the certificate is for Apple's other environment")
        case "BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken":
            return (.failed, "\(word): the key is for Apple's other environment: make one for both, under \(keys)")
        case "UnrelatedKeyIdInToken":
            return (.failed, "\(word): the key is not for this app: allow it for \(topic) under \(keys)")
        case "Forbidden", "MissingProviderToken":
            return (.failed, "\(word): Apple lets nobody in with this credential: make a new one")
        case "TooManyProviderTokenUpdates":
            return (.warning, "\(word): \(APNsAnswers.tooManyTokens)")
        default: return transport(answer.attemptResult)
        }
    }

    /// Answers that say nothing of the credential.
    static func transport(_ attemptResult: AttemptResult) -> (Finding.Grade, String) {
        let words = attemptResult.detail.map { "\(attemptResult.answer): \($0)" } ?? attemptResult.answer
        return switch attemptResult.disposition.failureSource {
        case .provider: (.failed, "no answer that says anything (\(words)): try again later; see the lines above")
        case .developer: (.failed, "\(words): the question was called wrong: please report this")
        case .nodeOperator: (.failed, "\(words): this node is refused: look at its credential")
        case .none, .deviceToken: (.ok, "the credential is taken")
        }
    }
}
