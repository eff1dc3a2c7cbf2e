// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// Issues provider tokens with one of Apple's keys, wherever the key is.
package protocol ProviderTokenIssuer: AnyObject, Sendable {
    /// The public half of the key.
    var publicKey: AppleKey.Public { get }
    /// Issues a token. A key holder gives the latest one instead while Apple would not accept another.
    /// - Parameters:
    ///   - now: Unix time in seconds.
    ///   - isUnseen: whether to replace the latest token although it is young: its `iat` is wrong, and Apple has not seen it.
    ///   - result: receives the token on the loop, at once or later; `nil` if none can be issued now.
    func issue(at now: Int64, inPlaceOfUnseen isUnseen: Bool, _ result: @escaping ([UInt8]?) -> Void)
}

extension ProviderTokenIssuer {
    /// When a token was issued, Unix time in seconds; `nil` if it is not one of this key.
    func issueTime(of token: [UInt8]) -> Int64? {
        JSONWebToken.issueTime(
            of: token, keyID: publicKey.keyID, issuer: publicKey.teamID, signedBy: publicKey.verifyingKey)
    }
}

/// One of Apple's keys for provider tokens, from a `.p8` file. Prints as `<redacted>`.
package final class AppleKey: ProviderTokenIssuer, Redacted {
    /// What is not secret about a key.
    package struct Public: Sendable {
        /// The key's 10-character identifier.
        package let keyID: String
        /// The developer team's 10-character identifier.
        package let teamID: String
        /// Verifies the tokens' signatures.
        package let verifyingKey: VerifyingKey
        /// A hash of the key and its ids, which is the same in all nodes.
        package let identity: Digest256

        package init(keyID: String, teamID: String, verifyingKey: VerifyingKey, identity: Digest256) {
            self.keyID = keyID
            self.teamID = teamID
            self.verifyingKey = verifyingKey
            self.identity = identity
        }
    }

    private let key: SigningKey
    package let publicKey: Public

    /// - Parameter key: for ES256.
    package init(_ key: SigningKey, keyID: String, teamID: String) {
        self.key = key
        publicKey = Public(
            keyID: keyID, teamID: teamID, verifyingKey: key.verifyingKey,
            identity: BLAKE2b.hash256(Array("\(keyID) \(teamID) ".utf8) + key.pem))
    }

    /// Reads the contents of a `.p8` file.
    /// - Throws: `KeyError`.
    package convenience init(pem: [UInt8], keyID: String, teamID: String) throws(KeyError) {
        self.init(try SigningKey(pem: pem, algorithm: .es256), keyID: keyID, teamID: teamID)
    }

    package func issue(at now: Int64, inPlaceOfUnseen isUnseen: Bool, _ result: @escaping ([UInt8]?) -> Void) {
        result(token(at: now))
    }

    /// A token; `nil` if signing fails.
    package func token(at now: Int64) -> [UInt8]? {
        JSONWebToken.signed(
            claims: "{\"iss\":\"\(publicKey.teamID)\",\"iat\":\(now)}", keyID: publicKey.keyID, by: key)
    }
}
