// SPDX-License-Identifier: Apache-2.0

import TNP

/// A push service in one environment under one credential. Makes one attempt and names what came of it; whether and
/// when there is another one is not its business.
package protocol Provider: AnyObject {
    /// Checks what can be checked without asking the push service: the size of its payload.
    /// - Throws: `Rejection` with reason 105.
    func check(_ envelope: Envelope) throws(Rejection)
    /// Hands the envelope to the push service and waits for its answer, within a bound of the provider's own.
    /// - Parameter expiry: until when the provider may keep it.
    nonisolated(nonsending) func attempt(_ envelope: Envelope, expiry: Expiry) async -> AttemptResult
    /// Ends its connections once what is under way is answered.
    func retire()
    /// Ends its connections at once.
    func close()
}

/// Until when a provider may keep an envelope for a phone that is off.
package enum Expiry: Hashable, Sendable {
    /// It is delivered now or never (ttl 0).
    case nowOrNever
    /// Until this Unix time in seconds.
    case at(Int64)

    /// That of an envelope that was taken at this Unix time in seconds.
    package init(ttl: UInt32, takenAt now: Int64) { self = ttl == 0 ? .nowOrNever : .at(now + Int64(ttl)) }

    /// `apns-expiration`: Unix time in seconds, or 0.
    var epochSeconds: Int64 {
        switch self {
        case .nowOrNever: 0
        case .at(let time): time
        }
    }

    /// FCM's `ttl` at this Unix time: seconds from now on, at most Google's longest.
    func secondsLeft(at now: Int64) -> Int64 {
        switch self {
        case .nowOrNever: 0
        case .at(let time): min(max(0, time - now), Int64(Envelope.longestTTL))
        }
    }

    /// Whether its time is over; what is for now or never has none.
    package func hasPassed(at now: Int64) -> Bool {
        switch self {
        case .nowOrNever: false
        case .at(let time): now >= time
        }
    }
}

/// What one attempt came to.
package struct AttemptResult: Equatable, Sendable {
    /// What the sender is told, unless the node tries again.
    package var outcome: Outcome
    /// The row of the outcome table.
    package var disposition: Disposition
    /// The provider's own word for it, from a closed list or `unknown`: for logs and metrics.
    package var answer: String
    /// Seconds that the provider itself wishes to be left alone for.
    package var retryAfter: UInt32?
    /// More words for the operator, e.g. why a connection failed; holds nothing of the envelope.
    package var detail: String?

    /// - Parameters: as the properties of the same names.
    package init(
        _ outcome: Outcome, disposition: Disposition, answer: String, retryAfter: UInt32? = nil, detail: String? = nil
    ) {
        self.outcome = outcome
        self.disposition = disposition
        self.answer = answer
        self.retryAfter = retryAfter
        self.detail = detail
    }

    /// The node's own refusal before anything was sent.
    init(_ rejection: Rejection) { self.init(rejection.outcome, disposition: .notSent, answer: "not-sent") }
}

/// Whom an answer of a provider concerns.
package enum FailureSource: String, Sendable {
    /// Nobody: the notification is on its way.
    case none
    /// The sender's device token, and nothing else.
    case deviceToken
    /// The operator: a credential, a topic or the clock is wrong.
    case nodeOperator
    /// Whoever builds Tocsin: it sent what it never should.
    case developer
    /// The provider, or the way to it: it passes.
    case provider
}
