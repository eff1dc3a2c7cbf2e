import TNP

/// A push service in one environment under one credential. Makes one attempt and names what came of it; whether and
/// when there is another one is not its business.
public protocol Provider: AnyObject {
    /// Hands the envelope to the push service and waits for its answer, within a bound of the provider's own.
    func attempt(_ envelope: Envelope, isolation: isolated (any Actor)?) async -> Verdict
    /// Ends its connections.
    func close()
}

/// What one attempt came to.
public struct Verdict: Equatable, Sendable {
    /// What the sender is told.
    public var outcome: Outcome
    /// Whom it concerns beside the sender.
    public var concern: Concern
    /// The provider's own word for it, from a closed list or `unknown`: for logs and metrics.
    public var answer: String
    /// More words for the operator, e.g. why a connection failed; holds nothing of the envelope.
    public var detail: String?

    /// - Parameters: as the properties of the same names.
    public init(_ outcome: Outcome, concern: Concern, answer: String, detail: String? = nil) {
        self.outcome = outcome
        self.concern = concern
        self.answer = answer
        self.detail = detail
    }
}

/// Whom an answer of a provider concerns.
public enum Concern: String, Sendable {
    /// Nobody: the notification is on its way.
    case nobody
    /// The sender's device token, and nothing else.
    case deviceToken
    /// The operator: a credential, a topic or the clock is wrong.
    case nodeOperator
    /// Whoever builds Tocsin: it sent what it never should.
    case developer
    /// The provider, or the way to it: it passes.
    case provider
}
