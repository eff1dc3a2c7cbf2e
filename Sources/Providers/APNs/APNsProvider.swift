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
        await exchange(envelope, expiry: expiry, timeout: Self.answerTimeout).result
    }

    /// Sends a notification to test the credential and the topic. The envelope's device token must not belong to any
    /// phone.
    /// - Parameter timeout: for each request; the probe sends one or two.
    package nonisolated(nonsending) func probe(_ envelope: Envelope, timeout: Duration) async -> ProbeAnswer {
        let (result, response) = await exchange(envelope, expiry: .nowOrNever, timeout: timeout)
        return ProbeAnswer(result, response)
    }

    /// Sends the envelope; once more if APNs rejects the provider token and a new one can be issued.
    private nonisolated(nonsending) func exchange(
        _ envelope: Envelope, expiry: Expiry, timeout: Duration
    ) async -> (result: AttemptResult, response: Response?) {
        var isReplay = false
        while true {
            let authorization = token?.authorization(at: UnixTime.now)
            let request: Request
            do {
                request = try builder.request(for: envelope, authorization: authorization, expiry: expiry)
            } catch {
                return (AttemptResult(error), nil)
            }
            do {
                let (response, connection) = try await upstream.exchange(request, timeout: timeout)
                var result = APNsAnswers.attemptResult(on: response)
                await upstream.apply(result.disposition.connection, to: connection)
                if result.disposition.credential == .renewed {
                    if !isReplay, let token, let authorization, token.renew(refused: authorization, at: UnixTime.now) {
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

    package func retire() { upstream.retire() }

    package func close() { upstream.close() }
}
