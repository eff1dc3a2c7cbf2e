import HTTP2
import TNP

/// Apple's push service in one environment, for one app under one credential.
public final class APNsProvider: Provider {
    /// Seconds to wait for Apple's answer.
    public static let answerTimeout = Duration.seconds(15)

    private let builder: APNsRequestBuilder
    private let token: APNsProviderToken?
    private let upstream: Upstream

    /// - Parameters:
    ///   - token: the provider token; nil where the TLS certificate says who we are.
    ///   - upstream: one of the environments.
    public init(_ builder: APNsRequestBuilder, token: APNsProviderToken?, upstream: Upstream) {
        self.builder = builder
        self.token = token
        self.upstream = upstream
    }

    public func attempt(_ envelope: Envelope, isolation: isolated (any Actor)? = #isolation) async -> Verdict {
        let now = UnixTime.now
        let request: Request
        do {
            request = try builder.request(for: envelope, authorization: token?.authorization(at: now), now: now)
        } catch {
            return Verdict(error.outcome, concern: .nobody, answer: "not-sent")
        }
        do {
            return APNsAnswers.verdict(on: try await upstream.send(request, timeout: Self.answerTimeout))
        } catch {
            return error.verdict
        }
    }

    public func close() { upstream.close() }
}
