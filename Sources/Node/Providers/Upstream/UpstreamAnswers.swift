// SPDX-License-Identifier: Apache-2.0

import Sender
import TNP

/// The outcome table for the answers of an upstream node (PROTOCOL §4, §9).
package enum UpstreamAnswers {
    /// One row of the table.
    package struct Row: Sendable {
        /// The outcome of the upstream node.
        package let kind: Outcome.Kind
        /// The reason of the upstream node.
        package let reason: Reason
        /// How the node handles the answer.
        package let disposition: Disposition
    }

    /// The retry-after in seconds if the upstream node names none.
    private static let standardPause: UInt32 = 30
    /// The longest retry-after of a GOAWAY that the node obeys, in seconds.
    private static let maximumPause: UInt32 = 600

    /// The upstream node rejects the envelope for a reason that only its sender can remove.
    private static func refused(_ reason: Reason) -> Disposition { Disposition(kind: .rejected, reason: reason) }

    /// The upstream node holds this device token back, or a sender may have caused the answer: other device tokens are
    /// unaffected.
    private static func paused(_ reason: Reason, seconds: UInt32 = standardPause, minimum: UInt32 = 0) -> Disposition {
        Disposition(
            kind: .retry, reason: reason, defaultRetryAfter: seconds, retry: .later(minimum: minimum),
            failureSource: .provider, token: .paused)
    }

    /// The upstream node has no room.
    private static let busy = Disposition(
        kind: .retry, reason: .nodeBusy, defaultRetryAfter: standardPause, retry: .later(minimum: 1),
        failureSource: .provider, lane: .failure)

    private static let tooMuchWork = Disposition(
        kind: .retry, reason: .nodeBusy, defaultRetryAfter: standardPause, retry: .later(minimum: 10),
        failureSource: .provider)

    private static let unavailable = Disposition.unavailable(seconds: standardPause, minimum: 1)

    /// Every answer that the protocol has, except DELIVERED and QUEUED.
    package static let table: [Row] = [
        // The sender's own faults: this node passes the reason on.
        Row(kind: .rejected, reason: .malformed, disposition: refused(.malformed)),
        Row(kind: .rejected, reason: .unknownMagic, disposition: refused(.unknownMagic)),
        Row(kind: .rejected, reason: .deviceTokenFormat, disposition: refused(.deviceTokenFormat)),
        Row(kind: .rejected, reason: .iv, disposition: refused(.iv)),
        Row(kind: .rejected, reason: .ciphertextLength, disposition: refused(.ciphertextLength)),
        Row(kind: .rejected, reason: .tooLarge, disposition: refused(.tooLarge)),
        Row(kind: .rejected, reason: .unsupportedField, disposition: refused(.unsupportedField)),
        Row(kind: .rejected, reason: .optionOutOfRange, disposition: refused(.optionOutOfRange)),
        Row(kind: .rejected, reason: .senderKeyRequired, disposition: refused(.senderKeyRequired)),
        Row(kind: .rejected, reason: .senderKeyMismatch, disposition: refused(.senderKeyMismatch)),
        Row(kind: .rejected, reason: .ivReused, disposition: refused(.ivReused)),
        Row(kind: .rejected, reason: .payloadRefused, disposition: refused(.payloadRefused)),
        Row(kind: .rejected, reason: .ttlRanOut, disposition: refused(.ttlRanOut)),
        // The upstream node has asked Apple's other environment already.
        Row(kind: .rejected, reason: .badDeviceToken, disposition: .foreignToken),
        Row(kind: .gone, reason: .unregistered, disposition: .gone),
        // `app.upstream` is wrong: the senders keep their notifications until the operator has corrected it.
        Row(kind: .rejected, reason: .unknownApp, disposition: .misconfigured),
        Row(kind: .rejected, reason: .platformNotConfigured, disposition: .misconfigured),
        Row(kind: .rejected, reason: .notASite, disposition: .misconfigured),
        // About handles: this node sends only device tokens, so that only a faulty node answers like this.
        Row(kind: .gone, reason: .unknownHandle, disposition: unavailable),
        Row(kind: .rejected, reason: .notTheOwner, disposition: unavailable),
        Row(
            kind: .rejected, reason: .tooManyHops,
            disposition: Disposition(kind: .rejected, reason: .tooManyHops, failureSource: .nodeOperator)),
        Row(kind: .retry, reason: .deviceTokenOverRate, disposition: paused(.deviceTokenOverRate)),
        Row(kind: .retry, reason: .tooManyUnproven, disposition: paused(.tooManyUnproven)),
        // Both are about this node's connection, not about the sender's. Device tokens have connections of their own, so
        // the others go on.
        Row(kind: .retry, reason: .connectionOverRate, disposition: busy.with(\.lane, .success)),
        Row(kind: .retry, reason: .tooManyInFlight, disposition: busy.with(\.lane, .success)),
        Row(kind: .retry, reason: .nodeBusy, disposition: busy),
        // The work exceeds what this node does for an envelope; a sender could not do it either.
        Row(kind: .retry, reason: .proofRequired, disposition: tooMuchWork),
        Row(kind: .retry, reason: .proofWrong, disposition: tooMuchWork),
        Row(kind: .retry, reason: .providerUnreachable, disposition: unavailable),
        // The upstream node also answers so for a device token that it has paused, e.g. one that a stranger has
        // invented: the lane stays open. If Apple or Google throttle the upstream node, its own breaker holds back what
        // this node sends.
        Row(kind: .retry, reason: .providerThrottles, disposition: .deviceThrottled(seconds: 60)),
        // The upstream node's credentials, or a device token that a sender has invented to provoke this answer: it must
        // not open the breaker.
        Row(
            kind: .retry, reason: .credentialsRefused,
            disposition: paused(.credentialsRefused, seconds: 300, minimum: 60)),
        Row(kind: .retry, reason: .shuttingDown, disposition: unavailable),
        Row(kind: .retry, reason: .internalError, disposition: unavailable),
    ]

    private static let byReason = Dictionary(uniqueKeysWithValues: table.map { ($0.reason, $0) })

    /// How the node handles an answer. A reason that the table does not list counts by the kind of its outcome.
    private static func disposition(of outcome: Outcome) -> Disposition {
        if let row = byReason[outcome.reason], row.kind == outcome.kind { return row.disposition }
        switch outcome.kind {
        case .delivered, .queued: return .delivered
        case .rejected: return refused(outcome.reason)
        case .retry: return unavailable
        case .gone: return .gone
        }
    }

    /// Classifies an answer by the table.
    package static func attemptResult(on outcome: Outcome) -> AttemptResult {
        let disposition = disposition(of: outcome)
        let isKnown = Reason.known.contains { $0.reason == outcome.reason }
        let answer = outcome.kind == .delivered ? "accepted" : isKnown ? outcome.reason.name : "unknown"
        let retryAfter =
            outcome.retryAfter == 0 ? nil : UInt32(clamping: (UInt64(clamping: outcome.retryAfter) + 999) / 1000)
        var result = disposition.attemptResult(answer: answer, retryAfter: retryAfter, goneSince: outcome.goneSince)
        // The provider's id and the text are kept for resends: the upstream node must not decide how much memory they
        // take.
        result.outcome.providerID = outcome.providerID.flatMap {
            $0.utf8.count <= SubmissionResult.maximumProviderIDLength ? $0 : nil
        }
        // The upstream node's text belongs to its reason: it is passed on if the reason stays the same.
        if result.outcome.reason == outcome.reason, let text = outcome.text {
            result.outcome.text = String(decoding: text.utf8Prefix(SubmissionResult.maximumTextLength), as: UTF8.self)
        }
        return result
    }

    /// Classifies an upstream node that cannot be used. The node may have the envelope
    /// already: the digest tells it so when this node sends the envelope again.
    /// - Parameter isNew: whether the attempt has just seen the failure; if not, it is known from an earlier attempt for
    ///   the same device token, and says nothing new about the lane.
    static func attemptResult(on failure: NodeLink.Failure, isNew: Bool) -> AttemptResult {
        var result: AttemptResult
        switch failure {
        case .unreachable, .proxyUnreachable, .nothingThere, .protocolError:
            result = unavailable.attemptResult(answer: TransportEvent.unreachable.rawValue)
            result.detail = failure.text
        case .siteRefused:
            result = Disposition.misconfigured.attemptResult(answer: Reason.notASite.name)
            result.detail = failure.text
        // The node has blocked this circuit, which other device tokens seldom use.
        case .refused(let goAway) where goAway.code == .abuse:
            result = goAwayResult(goAway, paused(.providerUnreachable))
        case .closing(let goAway), .refused(let goAway): result = goAwayResult(goAway, unavailable)
        }
        if !isNew { result.disposition.lane = .none }
        return result
    }

    private static func goAwayResult(_ goAway: GoAway, _ disposition: Disposition) -> AttemptResult {
        let seconds = min(goAway.retryAfter / 1000, maximumPause)
        var result = disposition.attemptResult(answer: "upstream-goaway", retryAfter: seconds == 0 ? nil : seconds)
        // Leaves out the GOAWAY's text, in which the upstream node may write anything.
        result.detail = "GOAWAY with code \(goAway.code.rawValue)"
        return result
    }

    /// No answer within the timeout.
    static var timedOut: AttemptResult { unavailable.attemptResult(answer: TransportEvent.timedOut.rawValue) }
}
