// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP
import Time

/// Where a provider token outlives the process that made it.
package protocol ProviderTokenKeeping {
    /// The token that was kept last; nil where there is none.
    func load() -> [UInt8]?
    /// Keeps the token in the place of the one before.
    func save(_ token: [UInt8])
}

/// Apple's provider token for one key: shared by all connections that use the key (Apple, "Establishing a token-based
/// connection to APNs": renewed no more often than every 20 minutes and no less often than every 60).
package final class APNsProviderToken {
    /// Seconds after which a new one is made.
    package static let lifetime: Int64 = 50 * 60
    /// Seconds before which none is made, whatever Apple says.
    package static let shortestInterval: Int64 = 20 * 60

    private struct Issued {
        let header: [UInt8]
        /// Its age by the time of day when this process got it: 0 where it was made here.
        let ageThen: Int64
        let then: MonotonicTime

        /// The age in seconds. The time of day may jump; this clock does not.
        func age(at now: MonotonicTime) -> Int64 { ageThen + (now - then).components.seconds }
    }

    private let key: SigningKey
    private let keyID: String
    private let teamID: String
    private let keeping: (any ProviderTokenKeeping)?
    private var issued: Issued?
    private var hasLooked = false

    /// - Parameters:
    ///   - key: of the `.p8` file.
    ///   - keyID: the key's 10-character identifier.
    ///   - teamID: the developer team's 10-character identifier.
    ///   - keeping: where the token is kept for the next process, so that a restart makes no second one.
    package init(key: SigningKey, keyID: String, teamID: String, keeping: (any ProviderTokenKeeping)? = nil) {
        self.key = key
        self.keyID = keyID
        self.teamID = teamID
        self.keeping = keeping
    }

    /// The value of `authorization`.
    /// - Parameters:
    ///   - now: Unix time in seconds, for `iat`.
    ///   - clock: what ages are counted by.
    package func authorization(at now: Int64, clock: MonotonicTime = .now) -> [UInt8] {
        if let issued = issued ?? kept(now: now, clock: clock), issued.age(at: clock) < Self.lifetime {
            return issued.header
        }
        return make(now: now, clock: clock)
    }

    /// How old the present token is, in seconds; nil: there is none yet.
    package func age(at clock: MonotonicTime) -> Int64? { issued?.age(at: clock) }

    /// Apple says that this token's time is over: makes a new one, unless that would be the second in 20 minutes.
    /// - Returns: whether there is now another token than the refused one.
    package func renew(refused header: [UInt8], at now: Int64, clock: MonotonicTime = .now) -> Bool {
        guard let issued, issued.header == header else { return true }
        guard issued.age(at: clock) >= Self.shortestInterval else { return false }
        _ = make(now: now, clock: clock)
        return true
    }

    private func make(now: Int64, clock: MonotonicTime) -> [UInt8] {
        let token = JSONWebToken.signed(claims: "{\"iss\":\"\(teamID)\",\"iat\":\(now)}", keyID: keyID, by: key)
        keeping?.save(token)
        let header = Self.header(token)
        issued = Issued(header: header, ageThen: 0, then: clock)
        return header
    }

    /// What an earlier process kept, where it is of this key and its time is not over.
    private func kept(now: Int64, clock: MonotonicTime) -> Issued? {
        guard !hasLooked else { return nil }
        hasLooked = true
        guard let token = keeping?.load(), let issuedAt = issueTime(of: token) else { return nil }
        // A clock that was set back says nothing of the age; 20 minutes later the token may be renewed.
        issued = Issued(header: Self.header(token), ageThen: max(0, now - issuedAt), then: clock)
        return issued
    }

    private func issueTime(of token: [UInt8]) -> Int64? {
        JSONWebToken.issueTime(of: token, keyID: keyID, issuer: teamID, signedBy: key.verifyingKey)
    }

    private static func header(_ token: [UInt8]) -> [UInt8] { Array("bearer ".utf8) + token }
}
