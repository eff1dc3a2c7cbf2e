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
        var isReplay = false
        while true {
            let authorization: [UInt8]
            do {
                authorization = try await token.authorization(at: UnixTime.now)
            } catch .refused {
                return Disposition.misconfigured.attemptResult(answer: "access-token-refused")
            } catch {
                return Disposition.unavailable(seconds: 30).attemptResult(answer: "access-token-unreachable")
            }
            let request: Request
            do {
                request = try builder.request(
                    for: envelope, authorization: authorization, ttl: expiry.secondsLeft(at: UnixTime.now))
            } catch {
                return AttemptResult(error)
            }
            var attemptResult: AttemptResult
            do {
                let (response, connection) = try await upstream.exchange(request, timeout: Self.answerTimeout)
                attemptResult = FCMAnswers.attemptResult(on: response)
                await upstream.apply(attemptResult.disposition.connection, to: connection)
                if attemptResult.disposition.credential == .renewed {
                    if !isReplay {
                        token.invalidate(authorization)
                        isReplay = true
                        continue
                    }
                    attemptResult.detail = ClockSkew(response.headers, now: UnixTime.now)?.description
                }
            } catch {
                attemptResult = error.attemptResult
            }
            return attemptResult
        }
    }

    package func retire() {
        token.retire()
        upstream.retire()
    }

    package func close() {
        token.close()
        upstream.close()
    }
}
