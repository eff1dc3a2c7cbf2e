// SPDX-License-Identifier: Apache-2.0

import HTTP2
import TNP
import Time

/// APNs in one environment, for one app under one credential.
package final class APNsProvider: Provider {
    /// How long the node waits for APNs' answer.
    package static let answerTimeout = Duration.seconds(15)

    private let builder: APNsRequestBuilder
    private let token: APNsProviderToken?
    private let upstream: Upstream

    /// Creates a provider.
    /// - Parameters:
    ///   - token: the provider token; `nil` if the node authenticates with a TLS certificate.
    ///   - upstream: the server of the environment.
    package init(_ builder: APNsRequestBuilder, token: APNsProviderToken?, upstream: Upstream) {
        self.builder = builder
        self.token = token
        self.upstream = upstream
    }

    package func check(_ envelope: Envelope) throws(Rejection) { try builder.check(envelope) }

    package nonisolated(nonsending) func attempt(_ envelope: Envelope, expiry: Expiry) async -> AttemptResult {
        var isReplay = false
        while true {
            let authorization = token?.authorization(at: UnixTime.now)
            let request: Request
            do {
                request = try builder.request(for: envelope, authorization: authorization, expiry: expiry)
            } catch {
                return AttemptResult(error)
            }
            var attemptResult: AttemptResult
            do {
                let (response, connection) = try await upstream.exchange(request, timeout: Self.answerTimeout)
                attemptResult = APNsAnswers.attemptResult(on: response)
                await upstream.apply(attemptResult.disposition.connection, to: connection)
                if attemptResult.disposition.credential == .renewed {
                    if !isReplay, let token, let authorization, token.renew(refused: authorization, at: UnixTime.now) {
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

    package func retire() { upstream.retire() }

    package func close() { upstream.close() }
}
