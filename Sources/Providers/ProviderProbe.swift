// SPDX-License-Identifier: Apache-2.0

import HTTP2
import TNP
import Time

/// What a push service said to a question that rings nobody.
package struct ProbeAnswer: Sendable {
    /// The row of the outcome table.
    package let attemptResult: AttemptResult
    /// Seconds that this machine's clock is ahead of the push service's; negative where it is behind, nil where the push
    /// service has not said.
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

/// Asks Apple for one notification, as ``APNsProvider`` does, to see what it says of the credential and the topic. The
/// envelope's device token has to be one that no phone has.
package struct APNsProbe {
    private let builder: APNsRequestBuilder
    private let token: APNsProviderToken?
    private let upstream: Upstream

    /// - Parameters: as of ``APNsProvider``.
    package init(_ builder: APNsRequestBuilder, token: APNsProviderToken?, upstream: Upstream) {
        self.builder = builder
        self.token = token
        self.upstream = upstream
    }

    /// - Parameter timeout: for an answer; there are two questions at most.
    package nonisolated(nonsending) func ask(_ envelope: Envelope, timeout: Duration) async -> ProbeAnswer {
        var isReplay = false
        while true {
            let authorization = token?.authorization(at: UnixTime.now)
            do {
                let request = try builder.request(for: envelope, authorization: authorization, expiry: .nowOrNever)
                let response = try await upstream.send(request, timeout: timeout)
                let attemptResult = APNsAnswers.attemptResult(on: response)
                // A token that was kept may be from a time when the clock was wrong.
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

    /// Ends its connection.
    package func close() { upstream.close() }
}

/// Asks Google whether it would take a message (`validate_only`), to see what it says of the service account.
package struct FCMProbe {
    private let builder: FCMRequestBuilder
    private let token: FCMAccessToken
    private let upstream: Upstream

    private static let validation = Array("{\"validate_only\":true,".utf8)

    /// - Parameters: as of ``FCMProvider``.
    package init(_ builder: FCMRequestBuilder, token: FCMAccessToken, upstream: Upstream) {
        self.builder = builder
        self.token = token
        self.upstream = upstream
    }

    /// - Parameter timeout: for the answer; the access token has a time of its own.
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
            // The message's own opening brace goes.
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

    /// Ends its connections.
    package func close() {
        token.close()
        upstream.close()
    }
}
