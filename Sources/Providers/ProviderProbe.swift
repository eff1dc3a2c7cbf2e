// SPDX-License-Identifier: Apache-2.0

import HTTP2
import TNP
import Time

/// A push service's answer to a probe, a request that delivers no notification.
package struct ProbeAnswer: Sendable {
    /// The answer, classified by the outcome table.
    package let attemptResult: AttemptResult
    /// Seconds by which this machine's clock is ahead of the push service's; negative if it is behind, `nil` if the
    /// answer has no `date`.
    package let clockAhead: Int64?

    /// - Parameters: as the properties of the same names.
    package init(_ attemptResult: AttemptResult, clockAhead: Int64? = nil) {
        self.attemptResult = attemptResult
        self.clockAhead = clockAhead
    }

    init(_ attemptResult: AttemptResult, _ response: Response) {
        self.init(attemptResult, clockAhead: ClockSkew(response.headers, now: UnixTime.now)?.seconds)
    }
}

/// Sends APNs one notification, as ``APNsProvider`` does, to test the credential and the topic. The envelope's device
/// token must not belong to any phone.
package struct APNsProbe {
    private let builder: APNsRequestBuilder
    private let token: APNsProviderToken?
    private let upstream: Upstream

    /// Creates a probe.
    /// - Parameters: as in ``APNsProvider/init(_:token:upstream:)``.
    package init(_ builder: APNsRequestBuilder, token: APNsProviderToken?, upstream: Upstream) {
        self.builder = builder
        self.token = token
        self.upstream = upstream
    }

    /// Sends the probe.
    /// - Parameter timeout: for each request; the probe sends one or two.
    package nonisolated(nonsending) func send(_ envelope: Envelope, timeout: Duration) async -> ProbeAnswer {
        var isReplay = false
        while true {
            let authorization = token?.authorization(at: UnixTime.now)
            do {
                let request = try builder.request(for: envelope, authorization: authorization, expiry: .nowOrNever)
                let response = try await upstream.send(request, timeout: timeout)
                let attemptResult = APNsAnswers.attemptResult(on: response)
                // A stored provider token may have been issued while the clock was wrong.
                if attemptResult.disposition.credential == .renewed, !isReplay, let token, let authorization,
                    token.renew(refused: authorization, at: UnixTime.now)
                {
                    isReplay = true
                    continue
                }
                return ProbeAnswer(attemptResult, response)
            } catch let failure as RequestFailure {
                return ProbeAnswer(failure.attemptResult)
            } catch let rejection as Rejection {
                return ProbeAnswer(AttemptResult(rejection))
            } catch {
                return ProbeAnswer(TransportEvent.connectionLost.disposition.attemptResult(answer: "unknown"))
            }
        }
    }

    /// Closes the probe's connection.
    package func close() { upstream.close() }
}

/// Asks FCM to validate a message without delivering it (`validate_only`), to test the service account.
package struct FCMProbe {
    private let builder: FCMRequestBuilder
    private let token: FCMAccessToken
    private let upstream: Upstream

    private static let validation = Array("{\"validate_only\":true,".utf8)

    /// Creates a probe.
    /// - Parameters: as in ``FCMProvider/init(_:token:upstream:)``.
    package init(_ builder: FCMRequestBuilder, token: FCMAccessToken, upstream: Upstream) {
        self.builder = builder
        self.token = token
        self.upstream = upstream
    }

    /// Sends the probe.
    /// - Parameter timeout: for the answer; fetching the access token has its own timeout.
    package nonisolated(nonsending) func ask(_ envelope: Envelope, timeout: Duration) async -> ProbeAnswer {
        let authorization: [UInt8]
        do {
            authorization = try await token.authorization(at: UnixTime.now)
        } catch .refused {
            return ProbeAnswer(Disposition.misconfigured.attemptResult(answer: "access-token-refused"))
        } catch {
            return ProbeAnswer(Disposition.unavailable(seconds: 30).attemptResult(answer: "access-token-unreachable"))
        }
        do {
            var request = try builder.request(for: envelope, authorization: authorization, ttl: 0)
            // `validation` replaces the opening brace of the body.
            request.body = Self.validation + request.body.dropFirst()
            let response = try await upstream.send(request, timeout: timeout)
            return ProbeAnswer(FCMAnswers.attemptResult(on: response), response)
        } catch let failure as RequestFailure {
            return ProbeAnswer(failure.attemptResult)
        } catch let rejection as Rejection {
            return ProbeAnswer(AttemptResult(rejection))
        } catch {
            return ProbeAnswer(TransportEvent.connectionLost.disposition.attemptResult(answer: "unknown"))
        }
    }

    /// Closes the probe's connections.
    package func close() {
        token.close()
        upstream.close()
    }
}
