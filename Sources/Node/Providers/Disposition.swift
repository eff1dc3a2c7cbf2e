// SPDX-License-Identifier: Apache-2.0

import HTTP2
import TNP

/// How the node handles one answer of a push service: the value of a row in an outcome table. Providers act on
/// ``connection`` and ``credential``, Delivery on the rest.
package struct Disposition: Equatable, Sendable {
    /// Whether and when the node itself retries.
    package enum Retry: Equatable, Sendable {
        /// No retry: the outcome is final.
        case never
        /// Immediately, without counting the attempt: the provider did not process the request.
        case atOnce
        /// Once more within a second, and a stored envelope later again: the provider may have processed the request.
        /// APNs gets the same apns-id and collapse id.
        case onceMore
        /// With backoff, and after at least `minimum` seconds.
        case later(minimum: UInt32)
        /// The node holds the envelope back. A stored envelope waits in the spool; the sender of any other envelope
        /// gets the outcome at once.
        case afterHold
    }

    /// What the answer says about the device token.
    package enum TokenEffect: String, Sendable {
        /// Nothing.
        case none
        /// The token is valid.
        case accepted
        /// Delivery to this token pauses; other tokens are unaffected.
        case paused
        /// The token is unknown in this environment, but may be valid in the other one.
        case unknownInEnvironment
        /// The token belongs to another app or project.
        case otherApp
        /// The app is no longer installed on the device.
        case gone
    }

    /// What the answer says about the lane: the push service for one app in one environment under one credential.
    package enum LaneEffect: String, Sendable {
        /// Nothing.
        case none
        /// The lane works.
        case success
        /// One failure; repeated failures open the breaker.
        case failure
        /// Further requests would fail too: the breaker opens at once.
        case trip
    }

    /// What the answer means for the credential.
    package enum CredentialEffect: String, Sendable {
        /// The credential stays in use.
        case kept
        /// The credential is renewed once, and the request is replayed.
        case renewed
    }

    /// The kind of outcome reported to the sender if the node does not retry.
    package let kind: Outcome.Kind
    /// The reason reported with the outcome.
    package let reason: Reason
    /// The sender's retry-after in seconds if the provider names none; 0 for a final outcome.
    package private(set) var defaultRetryAfter: UInt32 = 0
    /// Whether and when the node itself retries.
    package private(set) var retry = Retry.never
    /// The party at fault.
    package private(set) var failureSource = FailureSource.none
    /// The effect on the device token.
    package var token = TokenEffect.none
    /// The effect on the lane.
    package var lane = LaneEffect.success
    /// Whether ``TokenEffect/paused`` may be about the lane instead: the provider has one answer for both.
    package var mayThrottleLane = false
    /// Whether the answer, which concerns one subscription, may concern the credential instead: the provider has one answer
    /// for both.
    package var mayRefuseCredential = false
    /// The effect on the credential.
    package var credential = CredentialEffect.kept
    /// The effect on the connection that carried the answer.
    package var connection = ConnectionEffect.keep

    /// The provider accepted the notification.
    package static let delivered = Disposition(kind: .delivered, reason: .none, token: .accepted)
    /// The device token is invalid, or belongs to the other environment.
    package static let badToken = Disposition(
        kind: .rejected, reason: .badDeviceToken, failureSource: .deviceToken, token: .unknownInEnvironment)
    /// The device token belongs to another app or project.
    static let foreignToken = Disposition(
        kind: .rejected, reason: .badDeviceToken, failureSource: .deviceToken, token: .otherApp)
    /// The app is no longer installed on the device.
    package static let gone = Disposition(
        kind: .gone, reason: .unregistered, failureSource: .deviceToken, token: .gone)
    /// The operator must fix the configuration; until then senders keep their notifications.
    static let misconfigured = Disposition(
        kind: .retry, reason: .credentialsRefused, defaultRetryAfter: 300, retry: .later(minimum: 60),
        failureSource: .nodeOperator, lane: .trip)
    /// The provider refuses the credential, so every connection made with it is replaced.
    static let credentialRefused = misconfigured.with(\.connection, .drainAll)
    /// A push server refuses the node for this subscription, or for all.
    static let subscriptionRefused = Disposition(
        kind: .retry, reason: .credentialsRefused, defaultRetryAfter: 300, retry: .later(minimum: 60),
        failureSource: .deviceToken, token: .paused
    ).with(\.mayRefuseCredential, true)
    /// The credential has expired by the provider's clock.
    static let credentialExpired = misconfigured.with(\.credential, .renewed)
    /// The node sent an invalid request, which is a bug in the node.
    static let invalidRequest = Disposition(kind: .rejected, reason: .payloadRefused, failureSource: .developer)
    /// The payload exceeds the provider's limit; for APNs and FCM, the node should have checked it.
    static let tooLarge = Disposition(kind: .rejected, reason: .tooLarge, failureSource: .developer)
    /// The node rejected the envelope before sending it; the outcome carries the actual reason.
    package static let notSent = Disposition(kind: .rejected, reason: .tooLarge, lane: .none)

    /// The node holds the envelope back because of what it already knows, e.g. that the breaker is open.
    package static func heldBack(_ reason: Reason) -> Disposition {
        Disposition(kind: .retry, reason: reason, defaultRetryAfter: 1, retry: .afterHold, lane: .none)
    }

    /// The provider throttles this device only.
    static func deviceThrottled(seconds: UInt32) -> Disposition {
        Disposition(
            kind: .retry, reason: .providerThrottles, defaultRetryAfter: seconds, retry: .later(minimum: 0),
            failureSource: .provider, token: .paused)
    }

    /// FCM throttles without saying whether the device or the whole project is over quota. The device is paused, and
    /// repeated answers open the breaker. A single answer must not, or flooding one device would stop delivery to all.
    static let quotaExceeded = deviceThrottled(seconds: 60).with(\.lane, .failure)

    /// The provider throttles the whole lane.
    static func throttled(seconds: UInt32) -> Disposition {
        Disposition(
            kind: .retry, reason: .providerThrottles, defaultRetryAfter: seconds, retry: .later(minimum: 0),
            failureSource: .provider, lane: .trip)
    }

    /// The provider fails or cannot be reached.
    /// - Parameters:
    ///   - seconds: the sender's retry-after.
    ///   - minimum: seconds before the node's own next attempt.
    static func unavailable(seconds: UInt32, minimum: UInt32 = 0) -> Disposition {
        Disposition(
            kind: .retry, reason: .providerUnreachable, defaultRetryAfter: seconds, retry: .later(minimum: minimum),
            failureSource: .provider, lane: .failure)
    }

    /// The provider did not process the request.
    static let notProcessed = Disposition(
        kind: .retry, reason: .providerUnreachable, defaultRetryAfter: 1, retry: .atOnce, failureSource: .provider,
        lane: .none)
    /// The request was sent, and no answer came.
    static let outcomeUnknown = Disposition(
        kind: .retry, reason: .providerUnreachable, defaultRetryAfter: 5, retry: .onceMore, failureSource: .provider,
        lane: .failure)
    /// The connection failed, and all its requests with it. Delivery counts those that fail within a second as one
    /// failure of the lane.
    static let connectionFailed = outcomeUnknown.with(\.lane, .none)

    /// Whether the attempt counts as sent, for refunds (admission.md, "Refunds"): also if connecting failed, but not if
    /// the provider did not process the request or the node held the envelope back.
    package var mayHaveReachedProvider: Bool { lane != .none || retry == .onceMore }

    /// A copy with one property changed.
    func with<Column>(_ column: WritableKeyPath<Disposition, Column>, _ value: Column) -> Disposition {
        var disposition = self
        disposition[keyPath: column] = value
        return disposition
    }

    /// The result of an attempt with this disposition.
    /// - Parameters:
    ///   - answer: the provider's name for the answer, from a closed list.
    ///   - providerID: the provider's message ID.
    ///   - retryAfter: the provider's retry-after in seconds.
    ///   - goneSince: when the token became invalid, according to the provider; Unix time in milliseconds.
    func attemptResult(
        answer: String, providerID: String? = nil, retryAfter: UInt32? = nil, goneSince: UInt64? = nil
    ) -> AttemptResult {
        var outcome = Outcome(kind, reason: reason)
        switch kind {
        case .delivered, .queued:
            outcome.providerID = providerID.flatMap {
                $0.utf8.count <= SubmissionResult.maximumProviderIDLength ? $0 : nil
            }
        case .rejected:
            outcome.text = reason.description
            outcome.isTokenUnknown = token == .unknownInEnvironment
        case .retry: outcome.retryAfter = min(retryAfter ?? defaultRetryAfter, Self.maximumRetryAfter) * 1000
        case .gone: outcome.goneSince = goneSince
        }
        let providerRetryAfter = kind == .retry ? retryAfter.map { min($0, Self.maximumRetryAfter) } : nil
        return AttemptResult(outcome, disposition: self, answer: answer, retryAfter: providerRetryAfter)
    }

    /// Seconds before the node's own next attempt: the provider's retry-after, but at least the row's minimum. If a
    /// provider throttles without a retry-after, ``defaultRetryAfter`` applies.
    package func pause(retryAfter: UInt32?) -> UInt32 {
        guard case .later(let minimum) = retry else { return retryAfter ?? 1 }
        return max(minimum, retryAfter ?? (reason == .providerThrottles ? defaultRetryAfter : 0))
    }

    /// Upper bound on a provider's retry-after: one day, in seconds.
    private static let maximumRetryAfter: UInt32 = 86_400
}

/// The `retry-after` header in seconds (RFC 9110 §10.2.3); `nil` if it is absent or a date, which neither Apple nor
/// Google sends.
func retryAfter(_ headers: HeaderBlock) -> UInt32? { headers.text("retry-after").flatMap { UInt32($0, radix: 10) } }
