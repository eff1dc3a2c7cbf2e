// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Settings
import Time

/// A key for APNs provider tokens, from a `.p8` file.
package struct AppleKeyCredential: Credential {
    package static let kind = "apple-key"

    package let issuer: any ProviderTokenIssuer
    /// The key; `nil` if it is in another process.
    private let own: AppleKey?

    /// What is not secret about a key.
    private struct Facts: Codable {
        var keyID: String
        var teamID: String
        /// The public key in PEM form.
        var verifyingKey: Base64Bytes
        var identity: Base64Bytes
    }

    fileprivate struct Question: Codable {
        /// Whether Apple has not seen the latest token, which bears a wrong time.
        var isUnseen: Bool
    }

    package static func reference(file: String, keyID: String, teamID: String) -> CredentialReference {
        CredentialReference(Self.self, files: [file], fields: ["key_id": keyID, "team_id": teamID])
    }

    package init(_ reference: CredentialReference, _ contents: [[UInt8]]) throws(CredentialProblem) {
        do {
            let key = try AppleKey(
                pem: contents[0], keyID: reference.fields["key_id"] ?? "", teamID: reference.fields["team_id"] ?? "")
            (issuer, own) = (key, key)
        } catch {
            throw CredentialProblem(
                file: reference.files[0], text: CredentialFileUse.appleKey.problem(contents[0], error))
        }
    }

    package init(
        _ reference: CredentialReference, facts: [UInt8], key: any RemoteKeyAccess
    ) throws(CredentialProblem) {
        guard let facts = Facts(ifJSON: facts),
            let verifyingKey = VerifyingKey(pem: facts.verifyingKey.bytes, algorithm: .es256),
            let identity = Digest256(facts.identity.bytes)
        else {
            throw CredentialProblem(
                file: reference.files[0], text: "the key holder has sent no public key for it")
        }
        issuer = RemoteAppleKey(
            AppleKey.Public(
                keyID: facts.keyID, teamID: facts.teamID, verifyingKey: verifyingKey, identity: identity), key)
        own = nil
    }

    package var facts: [UInt8] {
        let key = issuer.publicKey
        return Facts(
            keyID: key.keyID, teamID: key.teamID, verifyingKey: Base64Bytes(key.verifyingKey.pem),
            identity: Base64Bytes(key.identity.bytes)
        ).json
    }

    package var key: any HeldKey { HeldAppleKey(key: own) }
}

/// A key for provider tokens that is in another process.
private final class RemoteAppleKey: ProviderTokenIssuer {
    let publicKey: AppleKey.Public
    private let key: any RemoteKeyAccess

    init(_ publicKey: AppleKey.Public, _ key: any RemoteKeyAccess) {
        self.publicKey = publicKey
        self.key = key
    }

    /// Ignores `now`: the other process uses its own clock.
    func issue(at now: Int64, inPlaceOfUnseen isUnseen: Bool, _ result: @escaping ([UInt8]?) -> Void) {
        key.ask(AppleKeyCredential.Question(isUnseen: isUnseen).json, result)
    }
}

/// Answers with the latest provider token, or with a new one if Apple accepts another by then.
private struct HeldAppleKey: HeldKey {
    let key: AppleKey?

    mutating func answer(
        _ question: [UInt8], about file: String, at time: ClockReading, _ issued: inout IssuedTokens
    ) -> KeyAnswer {
        guard let key, let question = AppleKeyCredential.Question(ifJSON: question) else { return .refused }
        let identity = key.publicKey.identity
        if let latest = issued.reusableToken(of: identity, isUnseen: question.isUnseen, at: time) {
            return KeyAnswer(latest)
        }
        guard let token = key.token(at: time.unix) else { return .refused }
        issued.add(token, of: identity, at: time)
        return KeyAnswer(token, use: KeyAnswer.Use(what: "provider token issued", file: file))
    }
}
