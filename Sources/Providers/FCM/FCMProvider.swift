// SPDX-License-Identifier: Apache-2.0

import HTTP2
import TNP
import Time

/// FCM for one app under one service account.
package final class FCMProvider: Provider {
    /// How long the node waits for FCM's answer. Google recommends at least 10 s; after 15 s, the delivery time still
    /// allows one more attempt on another connection.
    package static let answerTimeout = Duration.seconds(15)

    private let builder: FCMRequestBuilder
    private let token: FCMAccessToken
    private let upstream: Upstream

    /// Creates a provider.
    /// - Parameters:
    ///   - token: the access token of the service account.
    ///   - upstream: the connections to the message endpoint.
    package init(_ builder: FCMRequestBuilder, token: FCMAccessToken, upstream: Upstream) {
        self.builder = builder
        self.token = token
        self.upstream = upstream
    }

    package func check(_ envelope: Envelope) throws(Rejection) { try builder.check(envelope) }

    package nonisolated(nonsending) func attempt(_ envelope: Envelope, expiry: Expiry) async -> AttemptResult {
        await exchange(envelope, expiry: expiry, timeout: Self.answerTimeout).result
    }

    /// Asks FCM to validate a message without delivering it (`validate_only`), to test the service account.
    /// - Parameter timeout: for each answer; fetching the access token has its own timeout.
    package nonisolated(nonsending) func probe(_ envelope: Envelope, timeout: Duration) async -> ProbeAnswer {
        let (result, response) = await exchange(envelope, expiry: .nowOrNever, timeout: timeout, isValidation: true)
        return ProbeAnswer(result, response)
    }

    /// Sends the envelope; once more, with a new access token, if FCM rejects the first one.
    private nonisolated(nonsending) func exchange(
        _ envelope: Envelope, expiry: Expiry, timeout: Duration, isValidation: Bool = false
    ) async -> (result: AttemptResult, response: Response?) {
        var isReplay = false
        while true {
            let authorization: [UInt8]
            do {
                authorization = try await token.authorization(at: UnixTime.now)
            } catch .refused {
                return (Disposition.misconfigured.attemptResult(answer: "access-token-refused"), nil)
            } catch {
                return (Disposition.unavailable(seconds: 30).attemptResult(answer: "access-token-unreachable"), nil)
            }
            var request: Request
            do {
                request = try builder.request(
                    for: envelope, authorization: authorization, ttl: expiry.secondsLeft(at: UnixTime.now))
            } catch {
                return (AttemptResult(error), nil)
            }
            // `validation` replaces the opening brace of the body.
            if isValidation { request.body = Self.validation + request.body.dropFirst() }
            do {
                let (response, connection) = try await upstream.exchange(request, timeout: timeout)
                var result = FCMAnswers.attemptResult(on: response)
                await upstream.apply(result.disposition.connection, to: connection)
                if result.disposition.credential == .renewed {
                    if !isReplay {
                        token.invalidate(authorization)
                        isReplay = true
                        continue
                    }
                    result.detail = ClockSkew(response.headers, now: UnixTime.now)?.description
                }
                return (result, response)
            } catch {
                return (error.attemptResult, nil)
            }
        }
    }

    private static let validation = Array("{\"validate_only\":true,".utf8)

    package func retire() {
        token.retire()
        upstream.retire()
    }

    package func close() {
        token.close()
        upstream.close()
    }
}
