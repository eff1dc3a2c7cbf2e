// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// Apple's provider tokens in use. Apps with the same key share one, and a reload keeps it.
package struct AppleTokens {
    /// By a hash of key and ids: those in use, and those of an earlier assembly.
    package private(set) var byKey: [Digest256: APNsProviderToken]
    /// By the name of the app.
    package internal(set) var byApp: [String: APNsProviderToken] = [:]
    private var issuers: [Digest256: any ProviderTokenIssuer] = [:]

    /// - Parameter earlier: the tokens of an earlier assembly, to be reused.
    package init(earlier: AppleTokens? = nil) { byKey = earlier?.byKey ?? [:] }

    /// The token of a key.
    /// - Parameter state: the state directory, where it is kept.
    mutating func token(_ issuer: any ProviderTokenIssuer, state: String) -> APNsProviderToken {
        let key = issuer.publicKey
        issuers[key.identity] = issuer
        if let token = byKey[key.identity] { return token }
        let token = APNsProviderToken(issuer, keeping: ProviderTokenFile(path: ProviderTokenFile.path(key, in: state)))
        byKey[key.identity] = token
        return token
    }

    /// Gives tokens of an earlier assembly the issuers of this one: the key may be in another file or process now.
    package func useIssuers() {
        for (identity, issuer) in issuers { byKey[identity]?.issuer = issuer }
    }
}
