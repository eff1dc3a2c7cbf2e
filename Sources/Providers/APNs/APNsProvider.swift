// SPDX-License-Identifier: Apache-2.0

import HTTP2
import TNP
import Tables
import Time

/// APNs in one environment, for one app under one credential.
package final class APNsProvider: Provider, ResponseReceiver {
    /// How long the node waits for APNs' answer.
    package static let answerTimeout = Duration.seconds(15)

    private let builder: APNsRequestBuilder
    private let token: APNsProviderToken?
    private let upstream: Upstream
    private var exchanges = Slab<Exchange>()
    /// The last request, whose memory the next one reuses.
    private var request = Request(headers: HeaderBlock(), body: [])

    /// A request that waits for its answer.
    private struct Exchange {
        let envelope: Envelope
        let expiry: Expiry
        let timeout: Duration
        let requester: Requester
        /// The provider token that the request carries.
        var authorization: [UInt8]?
        var isReplay = false
    }

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

    package func attempt(_ envelope: Envelope, expiry: Expiry, number: UInt64, for receiver: any AttemptReceiver) {
        send(
            Exchange(
                envelope: envelope, expiry: expiry, timeout: Self.answerTimeout, requester: .attempt(number, receiver)))
    }

    /// Sends a notification to test the credential and the topic. The envelope's device token must not belong to any
    /// phone.
    /// - Parameter timeout: for each request; the probe sends one or two.
    package nonisolated(nonsending) func probe(_ envelope: Envelope, timeout: Duration) async -> ProbeAnswer {
        await withUnsafeContinuation {
            send(Exchange(envelope: envelope, expiry: .nowOrNever, timeout: timeout, requester: .probe($0)))
        }
    }

    private func send(_ exchange: consuming Exchange) {
        let authorization = token?.authorization(at: UnixTime.now)
        do {
            try builder.write(&request, for: exchange.envelope, authorization: authorization, expiry: exchange.expiry)
        } catch {
            return exchange.requester.finish(AttemptResult(error))
        }
        exchange.authorization = authorization
        let timeout = exchange.timeout
        upstream.start(request, timeout: timeout, number: exchanges.insert(exchange).rawValue, for: self)
    }

    package func received(_ result: Result<Response, RequestFailure>, for number: UInt64, on connection: Int?) {
        guard var exchange = exchanges.remove(Slab.Handle(rawValue: number)) else { return }
        switch result {
        case .success(let response):
            var result = APNsAnswers.attemptResult(on: response)
            if let connection { upstream.apply(result.disposition.connection, to: connection) }
            if result.disposition.credential == .renewed {
                // Once more if a new provider token can be issued.
                if !exchange.isReplay, let token, let refused = exchange.authorization,
                    token.renew(refused: refused, at: UnixTime.now)
                {
                    exchange.isReplay = true
                    return send(exchange)
                }
                result.detail = ClockSkew(response.headers, now: UnixTime.now)?.description
            }
            exchange.requester.finish(result, response)
        case .failure(let failure): exchange.requester.finish(failure.attemptResult)
        }
    }

    package func retire() { upstream.retire() }

    package func close() { upstream.close() }
}
