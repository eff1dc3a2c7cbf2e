// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Settings
import Time

/// A service account for FCM, from a JSON file.
package struct GoogleCredential: Credential {
    package static let kind = "google-account"

    package let account: any AssertionIssuer
    /// The endpoint of the account's access tokens.
    package let tokenURL: ServiceURL
    /// The account with its key; `nil` if the key is in another process.
    private let own: ServiceAccount?

    package static func reference(file: String) -> CredentialReference { CredentialReference(Self.self, files: [file]) }

    package init(_ reference: CredentialReference, _ contents: [[UInt8]]) throws(CredentialProblem) {
        let account: ServiceAccount
        do {
            account = try ServiceAccount(json: contents[0])
        } catch {
            throw CredentialProblem(
                file: reference.files[0], text: CredentialFileUse.googleAccount.problem(contents[0], error))
        }
        (self.account, own) = (account, account)
        tokenURL = try Self.tokenURL(of: account.publicAccount, in: reference.files[0])
    }

    package init(
        _ reference: CredentialReference, facts: [UInt8], key: any RemoteKeyAccess
    ) throws(CredentialProblem) {
        guard let known = ServiceAccount.Public(ifJSON: facts) else {
            throw CredentialProblem(file: reference.files[0], text: "the key holder has not said whose account it is")
        }
        (account, own) = (RemoteAccount(known, key), nil)
        tokenURL = try Self.tokenURL(of: known, in: reference.files[0])
    }

    private static func tokenURL(
        of account: ServiceAccount.Public, in file: String
    ) throws(CredentialProblem) -> ServiceURL {
        guard let url = ServiceURL(account.tokenURI) else {
            throw CredentialProblem(
                file: file, text: "token_uri is not an https URL: use the file from Firebase unchanged")
        }
        return url
    }

    package var facts: [UInt8] { account.publicAccount.json }

    package var key: any HeldKey { HeldAccountKey(account: own) }
}

/// A service account whose key is in another process.
private final class RemoteAccount: AssertionIssuer {
    let publicAccount: ServiceAccount.Public
    private let key: any RemoteKeyAccess

    init(_ publicAccount: ServiceAccount.Public, _ key: any RemoteKeyAccess) {
        self.publicAccount = publicAccount
        self.key = key
    }

    /// Ignores `now`: the other process uses its own clock.
    func assertion(at now: Int64, _ result: @escaping ([UInt8]?) -> Void) { key.ask([], result) }
}

/// Signs assertions, at most one in ``interval``.
private struct HeldAccountKey: HeldKey {
    let account: ServiceAccount?
    private var latest: (bytes: [UInt8], time: MonotonicTime)?
    /// As long as the node waits after a failed renewal (``FCMAccessToken``).
    private static let interval = Duration.seconds(10)

    init(account: ServiceAccount?) { self.account = account }

    mutating func answer(
        _ question: [UInt8], about file: String, at time: ClockReading, _ issued: inout IssuedTokens
    ) -> KeyAnswer {
        guard let account, question.isEmpty else { return .refused }
        if let latest, time.monotonic - latest.time < Self.interval { return KeyAnswer(latest.bytes) }
        guard let assertion = account.assertion(at: time.unix) else { return .refused }
        latest = (assertion, time.monotonic)
        return KeyAnswer(assertion, use: KeyAnswer.Use(what: "assertion for Google issued", file: file))
    }
}
