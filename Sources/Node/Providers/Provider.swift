// SPDX-License-Identifier: Apache-2.0

import TNP

/// Receives the results of attempts, on the provider's loop.
package protocol AttemptReceiver: AnyObject {
    /// Called once for each attempt, with the number given to the provider.
    func attempted(_ number: UInt64, _ result: AttemptResult)
}

/// Delivers an app's notifications: by a push service in one environment under one credential, by the push servers of
/// Web Push, or by upstream nodes. Makes single attempts and classifies their answers; Delivery decides on retries.
package protocol Provider: AnyObject {
    /// Signs for senders that do not sign, if the provider is an upstream node (PROTOCOL §9); `nil` for a push service.
    var upstreamKeys: UpstreamKeys? { get }
    /// The origins of the push servers that the operator has named, for Web Push; `nil` for other providers.
    var pushServers: Set<String>? { get }
    /// Checks the size of the payload, the push server and the number of hops, without contacting anything.
    /// - Throws: `Rejection` with reason 105, 102 (Web Push) or 313 (upstream nodes).
    func check(_ envelope: Envelope) throws(Rejection)
    /// Sends the envelope. The receiver gets the result within the provider's timeouts, possibly before this returns.
    /// - Parameters:
    ///   - expiry: until when the push service may store the envelope.
    ///   - number: identifies the attempt to the receiver.
    func attempt(_ envelope: Envelope, expiry: Expiry, number: UInt64, for receiver: any AttemptReceiver)
    /// Closes the provider's connections once all requests in flight are answered.
    func retire()
    /// Closes the provider's connections at once.
    func close()
}

extension Provider {
    package var upstreamKeys: UpstreamKeys? { nil }
    package var pushServers: Set<String>? { nil }
}

/// Until when a push service may store an envelope for a phone that is offline.
package enum Expiry: Hashable, Sendable {
    /// The envelope is not stored: it is delivered immediately or never (ttl 0).
    case nowOrNever
    /// Until this Unix time in seconds.
    case at(Int64)

    /// The expiry of an envelope.
    /// - Parameters:
    ///   - ttl: in seconds; 0 for ``nowOrNever``.
    ///   - now: when the node accepted the envelope; Unix time in seconds.
    package init(ttl: UInt32, takenAt now: Int64) { self = ttl == 0 ? .nowOrNever : .at(now + Int64(clamping: ttl)) }

    /// `apns-expiration`: Unix time in seconds, or 0.
    var epochSeconds: Int64 {
        switch self {
        case .nowOrNever: 0
        case .at(let time): time
        }
    }

    /// The ttl for FCM, push servers and upstream nodes: seconds from this Unix time until the expiry, at most
    /// ``Envelope/maximumTTL``.
    func secondsLeft(at now: Int64) -> Int64 {
        switch self {
        case .nowOrNever: 0
        case .at(let time): min(max(0, time - now), Int64(clamping: Envelope.maximumTTL))
        }
    }

    /// Whether the expiry has passed at this Unix time in seconds; always false for ``nowOrNever``.
    package func hasPassed(at now: Int64) -> Bool {
        switch self {
        case .nowOrNever: false
        case .at(let time): now >= time
        }
    }
}

/// The result of one attempt to deliver an envelope.
package struct AttemptResult: Equatable, Sendable {
    /// The outcome reported to the sender, unless the node retries.
    package var outcome: Outcome
    /// How the node handles the answer, from the outcome table.
    package var disposition: Disposition
    /// The provider's name for the answer, for logs and metrics: from a closed list, or `unknown`.
    package var answer: String
    /// The provider's retry-after in seconds.
    package var retryAfter: UInt32?
    /// Details for the operator, e.g. why a connection failed; contains no part of the envelope.
    package var detail: String?

    package init(
        _ outcome: Outcome, disposition: Disposition, answer: String, retryAfter: UInt32? = nil, detail: String? = nil
    ) {
        self.outcome = outcome
        self.disposition = disposition
        self.answer = answer
        self.retryAfter = retryAfter
        self.detail = detail
    }

    /// The result of an envelope that the node rejected before sending it.
    init(_ rejection: Rejection) { self.init(rejection.outcome, disposition: .notSent, answer: "not-sent") }
}

/// The party at fault for a failed attempt.
package enum FailureSource: String, Sendable {
    /// No party: the notification was accepted, rejected by this node or an upstream node, or held back here.
    case none
    /// The sender: only its device token is affected.
    case deviceToken
    /// The operator: a credential, the topic or the clock is wrong.
    case nodeOperator
    /// The developers of Tocsin: the node sent an invalid request.
    case developer
    /// The provider or the network path to it; the failure is transient.
    case provider
}
