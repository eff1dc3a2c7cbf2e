// SPDX-License-Identifier: Apache-2.0

import HTTP2
import TNP

/// What the node makes of one answer: a row of an outcome table without its key. It is data; providers act on
/// ``connection`` and ``credential``, Delivery on the rest.
package struct Disposition: Equatable, Sendable {
    /// Whether and when the node itself tries again.
    package enum Retry: Equatable, Sendable {
        /// It is final.
        case never
        /// The provider has not looked at it: again at once, and the attempt does not count.
        case atOnce
        /// Nobody knows whether it was processed: once more, under the same apns-id and collapse id.
        case onceMore
        /// By backoff, and never before so many seconds.
        case later(minimum: UInt32)
        /// It was not tried. What can wait in the spool waits; who else waits is told at once.
        case notNow
    }

    /// What it says of the device token.
    package enum TokenEffect: String, Sendable {
        /// Nothing.
        case none
        /// It is good.
        case accepted
        /// It is left alone for a while; others are not.
        case paused
        /// It is none here, but may be one in the other environment.
        case unknownHere
        /// It belongs to another app or project.
        case foreign
        /// The app is gone from the device.
        case gone
    }

    /// What it says of the lane: the provider in this environment under this credential.
    package enum LaneEffect: String, Sendable {
        /// Nothing.
        case none
        /// It works.
        case works
        /// One failure; many open the breaker.
        case strained
        /// There is no use in going on: the breaker opens.
        case blocked
    }

    /// What becomes of the credential.
    package enum CredentialEffect: String, Sendable {
        case kept
        /// Made anew once, and the request is replayed.
        case renewed
    }

    /// What the sender is told where the node does not try again.
    package let kind: Outcome.Kind
    package let reason: Reason
    /// Seconds after which the sender may try again, where the provider says nothing; 0 for what is final.
    package let defaultRetryAfter: UInt32
    package let retry: Retry
    /// Whom it concerns beside the sender.
    package let failureSource: FailureSource
    package var token = TokenEffect.none
    package var lane = LaneEffect.works
    package var credential = CredentialEffect.kept
    package var connection = ConnectionEffect.kept

    /// The provider has accepted it.
    package static let delivered = Disposition(
        kind: .delivered, reason: .none, defaultRetryAfter: 0, retry: .never, failureSource: .none, token: .accepted)
    /// The device token is none, or one of the other environment.
    package static let badToken = Disposition(
        kind: .rejected, reason: .badDeviceToken, defaultRetryAfter: 0, retry: .never, failureSource: .deviceToken,
        token: .unknownHere)
    /// The device token is one of another app or project.
    static let foreignToken = Disposition(
        kind: .rejected, reason: .badDeviceToken, defaultRetryAfter: 0, retry: .never, failureSource: .deviceToken,
        token: .foreign)
    /// The app is gone from the device.
    package static let gone = Disposition(
        kind: .gone, reason: .unregistered, defaultRetryAfter: 0, retry: .never, failureSource: .deviceToken,
        token: .gone)
    /// The operator has to put something right; until then senders keep what they have.
    static let misconfigured = Disposition(
        kind: .retry, reason: .credentialsRefused, defaultRetryAfter: 300, retry: .later(minimum: 60),
        failureSource: .nodeOperator,
        lane: .blocked)
    /// The same, and no connection that was made under the credential is of any use.
    static let credentialRefused = misconfigured.with(\.connection, .allLeft)
    /// The credential's time is over by the provider's clock.
    static let credentialExpired = misconfigured.with(\.credential, .renewed)
    /// The request was wrong, which is the node's own fault.
    static let ourFault = Disposition(
        kind: .rejected, reason: .payloadRefused, defaultRetryAfter: 0, retry: .never, failureSource: .developer)
    static let tooLarge = Disposition(
        kind: .rejected, reason: .tooLarge, defaultRetryAfter: 0, retry: .never, failureSource: .developer)
    /// The node itself found, before it sent anything, that it never could.
    package static let notSent = Disposition(
        kind: .rejected, reason: .tooLarge, defaultRetryAfter: 0, retry: .never, failureSource: .none, lane: .none)

    /// The node holds it back, knowing what would come of it.
    package static func heldBack(_ reason: Reason) -> Disposition {
        Disposition(
            kind: .retry, reason: reason, defaultRetryAfter: 1, retry: .notNow, failureSource: .none, lane: .none)
    }

    /// Too much for this device only.
    static func deviceThrottled(seconds: UInt32) -> Disposition {
        Disposition(
            kind: .retry, reason: .providerThrottles, defaultRetryAfter: seconds, retry: .later(minimum: 0),
            failureSource: .provider, token: .paused)
    }

    /// Too much, and Google does not say whether for this device or for the whole project: the device is left alone, and
    /// many such answers open the breaker. One alone must not, or whoever floods one device would stop all.
    static let quotaExceeded = deviceThrottled(seconds: 60).with(\.lane, .strained)

    /// Too much of all.
    static func throttled(seconds: UInt32) -> Disposition {
        Disposition(
            kind: .retry, reason: .providerThrottles, defaultRetryAfter: seconds, retry: .later(minimum: 0),
            failureSource: .provider, lane: .blocked)
    }

    /// The provider is out of order or out of reach.
    /// - Parameters:
    ///   - seconds: for the sender.
    ///   - minimum: for the node's own next attempt.
    static func unavailable(seconds: UInt32, minimum: UInt32 = 0) -> Disposition {
        Disposition(
            kind: .retry, reason: .providerUnreachable, defaultRetryAfter: seconds, retry: .later(minimum: minimum),
            failureSource: .provider, lane: .strained)
    }

    /// The provider did nothing with it.
    static let notProcessed = Disposition(
        kind: .retry, reason: .providerUnreachable, defaultRetryAfter: 1, retry: .atOnce, failureSource: .provider,
        lane: .none)
    /// It went out, and no answer came.
    static let fateUnknown = Disposition(
        kind: .retry, reason: .providerUnreachable, defaultRetryAfter: 5, retry: .onceMore, failureSource: .provider,
        lane: .strained)
    /// The same, together with everything else on its connection: that says something of the connection, and not yet of
    /// the push service.
    static let connectionFailed = fateUnknown.with(\.lane, .none)

    /// Whether the provider has, or may have, seen the request.
    package var mayHaveReachedProvider: Bool { lane != .none || retry == .onceMore }

    /// The same but for one column.
    func with<Column>(_ column: WritableKeyPath<Disposition, Column>, _ value: Column) -> Disposition {
        var disposition = self
        disposition[keyPath: column] = value
        return disposition
    }

    /// What the sender is told.
    /// - Parameters:
    ///   - retryAfter: the provider's own word for how long to wait, in seconds.
    ///   - goneSince: the provider's word since when the token is gone, Unix time in milliseconds.
    func attemptResult(
        answer: String, providerID: String? = nil, retryAfter: UInt32? = nil, goneSince: UInt64? = nil
    ) -> AttemptResult {
        var outcome = Outcome(kind, reason: reason)
        switch kind {
        case .delivered, .queued:
            outcome.providerID = providerID.flatMap { $0.utf8.count <= SubmissionResult.longestProviderID ? $0 : nil }
        case .rejected:
            outcome.text = reason.description
            outcome.isTokenUnknown = token == .unknownHere
        case .retry: outcome.retryAfter = min(retryAfter ?? defaultRetryAfter, Self.longestRetryAfter) * 1000
        case .gone: outcome.goneSince = goneSince
        }
        let heard = kind == .retry ? retryAfter.map { min($0, Self.longestRetryAfter) } : nil
        return AttemptResult(outcome, disposition: self, answer: answer, retryAfter: heard)
    }

    /// Seconds before which the node itself does not try again: what the provider wishes, and at least the row's own
    /// minimum; who asks to slow down without a number is left alone for as long as a sender would be told.
    package func pause(retryAfter: UInt32?) -> UInt32 {
        guard case .later(let minimum) = retry else { return retryAfter ?? 1 }
        return max(minimum, retryAfter ?? (reason == .providerThrottles ? defaultRetryAfter : 0))
    }

    /// No provider has an envelope wait for more than a day.
    private static let longestRetryAfter: UInt32 = 86_400
}

/// `retry-after` in seconds (RFC 9110 §10.2.3); nil where it is absent or a date, which neither Apple nor Google sends.
func retryAfter(_ headers: HeaderBlock) -> UInt32? { headers.text("retry-after").flatMap { UInt32($0) } }
