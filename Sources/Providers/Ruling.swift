import HTTP2
import TNP

/// What the node makes of one answer: a row of an outcome table without its key.
public struct Ruling: Equatable, Sendable {
    public let kind: Outcome.Kind
    public let reason: Reason
    /// Seconds after which the sender may try again, where the provider says nothing; 0 for what is final.
    public let retryAfter: UInt32
    public let concern: Concern

    static let delivered = Ruling(kind: .delivered, reason: .none, retryAfter: 0, concern: .nobody)
    /// The device token is none, or not one of this app or environment.
    public static let badToken = Ruling(kind: .rejected, reason: .badDeviceToken, retryAfter: 0, concern: .deviceToken)
    /// The app is gone from the device.
    static let gone = Ruling(kind: .gone, reason: .unregistered, retryAfter: 0, concern: .deviceToken)
    /// The operator has to put something right; until then senders keep what they have.
    static let misconfigured = Ruling(
        kind: .retry, reason: .credentialsRefused, retryAfter: 300, concern: .nodeOperator)
    /// The request was wrong, which is the node's own fault.
    static let ourFault = Ruling(kind: .rejected, reason: .payloadRefused, retryAfter: 0, concern: .developer)
    static let tooLarge = Ruling(kind: .rejected, reason: .tooLarge, retryAfter: 0, concern: .developer)

    static func throttled(seconds: UInt32) -> Ruling {
        Ruling(kind: .retry, reason: .providerThrottles, retryAfter: seconds, concern: .provider)
    }

    static func unavailable(seconds: UInt32) -> Ruling {
        Ruling(kind: .retry, reason: .providerUnreachable, retryAfter: seconds, concern: .provider)
    }

    /// What the sender is told.
    /// - Parameters:
    ///   - retryAfter: the provider's own wish in seconds.
    ///   - goneSince: the provider's word since when the token is gone, Unix time in milliseconds.
    func verdict(
        answer: String, providerID: String? = nil, retryAfter wish: UInt32? = nil, goneSince: UInt64? = nil
    ) -> Verdict {
        var outcome = Outcome(kind, reason: reason)
        switch kind {
        case .delivered, .queued: outcome.providerID = providerID
        case .rejected: outcome.text = reason.description
        case .retry: outcome.retryAfter = min(wish ?? retryAfter, 86_400) * 1000
        case .gone: outcome.goneSince = goneSince
        }
        return Verdict(outcome, concern: concern, answer: answer)
    }
}

extension RequestFailure {
    /// What the node makes of a request without an answer.
    var verdict: Verdict {
        func verdict(_ answer: String, after seconds: UInt32, _ detail: String? = nil) -> Verdict {
            var verdict = Ruling.unavailable(seconds: seconds).verdict(answer: answer)
            verdict.detail = detail
            return verdict
        }
        return switch cause {
        case .unreachable(let reason): verdict("unreachable", after: 30, reason)
        case .connectionLost(let reason): verdict("connection-lost", after: 5, reason)
        case .timedOut: verdict("timed-out", after: 30)
        case .reset(let code): verdict("reset", after: 5, "HTTP/2 error code \(code)")
        case .goAway: verdict("go-away", after: 1)
        case .responseTooLarge: verdict("response-too-large", after: 60)
        }
    }
}

/// `retry-after` in seconds (RFC 9110 §10.2.3); nil where it is absent or a date, which neither Apple nor Google sends.
func retryAfter(_ headers: HeaderBlock) -> UInt32? { headers.text("retry-after").flatMap { UInt32($0) } }
