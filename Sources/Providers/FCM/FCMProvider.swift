import HTTP2
import TNP

/// Google's push service for one app under one service account.
public final class FCMProvider: Provider {
    /// Seconds to wait for Google's answer; Google asks for at least 10.
    public static let answerTimeout = Duration.seconds(20)

    private let builder: FCMRequestBuilder
    private let token: FCMAccessToken
    private let upstream: Upstream

    /// - Parameters:
    ///   - token: of the service account.
    ///   - upstream: the message endpoint.
    public init(_ builder: FCMRequestBuilder, token: FCMAccessToken, upstream: Upstream) {
        self.builder = builder
        self.token = token
        self.upstream = upstream
    }

    public func attempt(_ envelope: Envelope, isolation: isolated (any Actor)? = #isolation) async -> Verdict {
        let authorization: [UInt8]
        do {
            authorization = try await token.authorization(at: UnixTime.now)
        } catch .refused {
            return Ruling.misconfigured.verdict(answer: "access-token-refused")
        } catch {
            return Ruling.unavailable(seconds: 30).verdict(answer: "access-token-unreachable")
        }
        let request: Request
        do {
            request = try builder.request(for: envelope, authorization: authorization)
        } catch {
            return Verdict(error.outcome, concern: .nobody, answer: "not-sent")
        }
        do {
            let response = try await upstream.send(request, timeout: Self.answerTimeout)
            if response.status == 401 { token.invalidate(authorization) }
            return FCMAnswers.verdict(on: response)
        } catch {
            return error.verdict
        }
    }

    public func close() {
        token.close()
        upstream.close()
    }
}
