// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP
import Time

/// Storage that keeps a provider token across restarts.
package protocol ProviderTokenStore {
    /// The stored token; `nil` if there is none.
    func load() -> [UInt8]?
    /// Stores the token, replacing the previous one.
    func save(_ token: [UInt8])
}

/// Renews a provider token for all nodes of a cluster.
package protocol SharedTokenRenewal: AnyObject {
    /// Renews the token of all nodes, which APNs has refused. It changes later.
    /// - Returns: `false` if the nodes cannot agree on a token now: the caller then renews its own.
    func renew(_ token: APNsProviderToken) -> Bool
}

/// The APNs provider token for one key, shared by all connections that use the key (Apple, "Establishing a token-based
/// connection to APNs": renewed at most every 20 minutes and at least every 60).
package final class APNsProviderToken {
    /// Age in seconds at which the token is renewed.
    package static let lifetime: Int64 = 50 * 60
    /// Age in seconds at which APNs refuses a token.
    package static let maximumLife: Int64 = 60 * 60
    /// How long no token is requested after a request that failed.
    private static let pauseAfterFailure = Duration.seconds(1)
    /// The shortest time in seconds between two tokens, whatever APNs answers.
    package static let shortestInterval: Int64 = 20 * 60

    private final class Issued {
        let token: [UInt8]
        let header: [UInt8]
        /// The token's `iat`, Unix time in seconds.
        let issuedAt: Int64
        /// The age of the token in seconds when this process obtained it, by the wall clock; 0 for a new token.
        let initialAge: Int64
        /// Whether the wall clock showed a time before ``issuedAt`` then, so that ``initialAge`` is a guess.
        let isAgeGuessed: Bool
        let obtainedAt: MonotonicTime
        /// Whether Apple may have seen it.
        var isSeen: Bool

        init(_ token: [UInt8], issuedAt: Int64, obtainedAt clock: MonotonicTime, wall now: Int64, isSeen: Bool) {
            self.token = token
            header = Array("bearer ".utf8) + token
            self.issuedAt = issuedAt
            // Bounds the age: a token from a file or another node may have any `iat`.
            let (age, isOverflow) = now.subtractingReportingOverflow(issuedAt)
            initialAge = isOverflow ? 0 : min(max(0, age), maximumLife)
            isAgeGuessed = isOverflow || age < 0
            obtainedAt = clock
            self.isSeen = isSeen
        }

        /// The age in seconds. Uses the monotonic clock, because the wall clock may jump.
        func age(at now: MonotonicTime) -> Int64 { initialAge + (now - obtainedAt).wholeSeconds }

        /// Whether the wall clock has stepped since the token was issued.
        func isMisdated(at now: Int64, clock: MonotonicTime) -> Bool {
            let (age, isOverflow) = now.subtractingReportingOverflow(issuedAt)
            return isOverflow || abs(age - self.age(at: clock)) > GuardedClock.tolerance
        }
    }

    /// Issues tokens. A reload replaces it: the key may be in another process then.
    package var issuer: any ProviderTokenIssuer
    private let keeping: (any ProviderTokenStore)?
    /// `nil` if this node shares no token with others.
    package weak var sharing: (any SharedTokenRenewal)?
    private var issued: Issued?
    private var hasLoaded = false
    private var nextIssue = MonotonicTime(nanoseconds: 0)
    /// Whether the issuer is making a token.
    package private(set) var isBeingIssued = false
    private var waiting: [() -> Void] = []

    /// Creates a token that is issued on first use.
    /// - Parameters:
    ///   - keeping: storage for the token, so that a restart issues no second one.
    package init(_ issuer: any ProviderTokenIssuer, keeping: (any ProviderTokenStore)? = nil) {
        self.issuer = issuer
        self.keeping = keeping
    }

    /// The value of the `authorization` header; `nil` if there is no valid token. Begins to issue one if that is due;
    /// see ``isBeingIssued``.
    /// - Parameters:
    ///   - now: Unix time in seconds, for `iat`.
    ///   - clock: the monotonic time, for the token's age.
    package func authorization(at now: Int64, clock: MonotonicTime = .now) -> [UInt8]? {
        if let present = current(at: now, clock: clock), present.age(at: clock) < Self.lifetime {
            return present.header
        }
        make(now: now, clock: clock)
        guard let latest = current(at: now, clock: clock), latest.age(at: clock) < Self.maximumLife else { return nil }
        return latest.header
    }

    /// Whether a request may have brought the token to Apple, answered or not.
    package var isSeen: Bool { issued?.isSeen ?? false }

    /// Notes that a request with this header is on its way to Apple.
    package func wasSent(_ header: [UInt8]?) {
        guard let issued, issued.header == header else { return }
        issued.isSeen = true
    }

    /// Calls `action` when the issuer has answered; at once if no token is being issued.
    package func whenIssued(_ action: @escaping () -> Void) {
        if isBeingIssued { waiting.append(action) } else { action() }
    }

    /// The age of the current token in seconds; `nil` if there is none yet.
    package func age(at clock: MonotonicTime) -> Int64? { issued?.age(at: clock) }

    /// Issues a new token after APNs refused this one, unless it would be the second in 20 minutes, or the cluster
    /// renews it (``sharing``).
    /// - Parameter result: receives whether the current token differs from the refused one, at once or later.
    package func renew(
        refused header: [UInt8], at now: Int64, clock: MonotonicTime = .now, _ result: @escaping (Bool) -> Void
    ) {
        guard let issued, issued.header == header else { return result(true) }
        guard isBeingIssued || (issued.age(at: clock) >= Self.shortestInterval && sharing?.renew(self) != true) else {
            return result(false)
        }
        make(now: now, clock: clock)
        whenIssued { [self] in result(self.issued?.header != header) }
    }

    private func make(now: Int64, clock: MonotonicTime) {
        // After a failure, envelopes do not each cause another request.
        guard clock >= nextIssue, !isBeingIssued else { return }
        isBeingIssued = true
        let isUnseen = issued.map { !$0.isSeen && $0.isMisdated(at: now, clock: clock) } ?? false
        issuer.issue(at: now, inPlaceOfUnseen: isUnseen) { [self] token in
            isBeingIssued = false
            if let token, let issuedAt = issuer.issueTime(of: token) {
                // The key holder repeats a token that is younger than ``shortestInterval``.
                use(Issued(token, issuedAt: issuedAt, obtainedAt: clock, wall: now, isSeen: false))
            } else {
                nextIssue = clock + Self.pauseAfterFailure
            }
            let actions = waiting
            waiting = []
            for action in actions { action() }
        }
    }

    private func use(_ latest: Issued) {
        keeping?.save(latest.token)
        issued = latest
    }

    /// The token, issued by this or an earlier process. `nil` also for one that Apple has not seen and that a wrong
    /// clock has dated: another one may replace it at once.
    private func current(at now: Int64, clock: MonotonicTime) -> Issued? {
        guard let present = issued ?? loadStored(now: now, clock: clock) else { return nil }
        if !present.isSeen, present.isMisdated(at: now, clock: clock) { return nil }
        if present.isAgeGuessed, now >= present.issuedAt {
            // The clock was wrong when the token was loaded.
            issued = Issued(
                present.token, issuedAt: present.issuedAt, obtainedAt: clock, wall: now, isSeen: present.isSeen)
            return issued
        }
        return present
    }

    // MARK: Sharing

    /// The token, issued by this or an earlier process or by another node; `nil` if there is none.
    package func present(at now: Int64, clock: MonotonicTime = .now) -> [UInt8]? {
        current(at: now, clock: clock)?.token
    }

    /// Begins to issue a new token, which the cluster then shares.
    package func issue(at now: Int64, clock: MonotonicTime = .now) { make(now: now, clock: clock) }

    /// Uses a token that another node has issued; its `iat` gives its age.
    /// - Returns: whether it is a token of this key, from a clock that agrees with this node's.
    package func adopt(_ token: [UInt8], at now: Int64, clock: MonotonicTime = .now) -> Bool {
        guard let issuedAt = issuer.issueTime(of: token) else { return false }
        // A token that a wrong clock has dated is of no use, and would replace a good one.
        let (age, isOverflow) = now.subtractingReportingOverflow(issuedAt)
        guard !isOverflow, (-GuardedClock.tolerance...Self.maximumLife + GuardedClock.tolerance).contains(age) else {
            return false
        }
        use(Issued(token, issuedAt: issuedAt, obtainedAt: clock, wall: now, isSeen: true))
        return true
    }

    /// Loads the token of an earlier process, once; `nil` if there is none or it was not issued with this key.
    private func loadStored(now: Int64, clock: MonotonicTime) -> Issued? {
        guard !hasLoaded else { return nil }
        hasLoaded = true
        guard let token = keeping?.load(), let issuedAt = issuer.issueTime(of: token) else { return nil }
        issued = Issued(token, issuedAt: issuedAt, obtainedAt: clock, wall: now, isSeen: true)
        return issued
    }
}
