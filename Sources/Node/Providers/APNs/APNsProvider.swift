// SPDX-License-Identifier: Apache-2.0

import EventLoop
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
    private let pool: ConnectionPool
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
        let authorization: [UInt8]?
        /// Whether the request is the second one, with another provider token.
        let isReplay: Bool
    }

    /// Creates a provider.
    /// - Parameters:
    ///   - token: the provider token; `nil` if the node authenticates with a TLS certificate.
    ///   - pool: the connections to the server of the environment.
    package init(_ builder: APNsRequestBuilder, token: APNsProviderToken?, pool: ConnectionPool) {
        self.builder = builder
        self.token = token
        self.pool = pool
    }

    package func check(_ envelope: Envelope) throws(Rejection) { try builder.check(envelope) }

    package func attempt(_ envelope: Envelope, expiry: Expiry, number: UInt64, for receiver: any AttemptReceiver) {
        send(envelope, expiry, timeout: Self.answerTimeout, for: .attempt(number, receiver))
    }

    /// Sends a notification to test the credential and the topic. The envelope's device token must not belong to any
    /// phone.
    /// - Parameter timeout: for each request; the probe sends one or two.
    package nonisolated(nonsending) func probe(_ envelope: Envelope, timeout: Duration) async -> ProbeAnswer {
        await withUnsafeContinuation {
            send(envelope, .nowOrNever, timeout: timeout, for: .probe($0))
        }
    }

    private func send(
        _ envelope: Envelope, _ expiry: Expiry, timeout: Duration, for requester: Requester, isReplay: Bool = false
    ) {
        let authorization = token?.authorization(at: UnixTime.now, clock: pool.loop.now)
        if let token, authorization == nil {
            if token.isBeingIssued {
                return token.whenIssued { [self] in
                    send(envelope, expiry, timeout: timeout, for: requester, isReplay: isReplay)
                }
            }
            return requester.finish(Disposition.unavailable(seconds: 30).attemptResult(answer: "no-provider-token"))
        }
        // Takes the request out of the property: if it fails before `start` returns, a replay writes another one.
        var request = Request(headers: HeaderBlock(), body: [])
        swap(&request, &self.request)
        do throws(Rejection) {
            try builder.write(&request, for: envelope, authorization: authorization, expiry: expiry)
            let number = exchanges.insert(
                Exchange(
                    envelope: envelope, expiry: expiry, timeout: timeout, requester: requester,
                    authorization: authorization, isReplay: isReplay))
            pool.start(request, timeout: timeout, number: number.rawValue, for: self)
        } catch {
            requester.finish(AttemptResult(error))
        }
        swap(&request, &self.request)
    }

    package func taken(_ number: UInt64) {
        guard let token, !token.isSeen else { return }
        token.wasSent(exchanges[Slab.Handle(rawValue: number)].authorization)
    }

    package func received(_ result: Result<Response, RequestFailure>, for number: UInt64, on connection: Int?) {
        guard let exchange = exchanges.remove(Slab.Handle(rawValue: number)) else { return }
        switch result {
        case .success(let response):
            var result = APNsAnswers.attemptResult(on: response)
            if result.disposition.credential == .renewed {
                // Once more if a new provider token can be issued.
                result.detail = ClockSkew(response.headers, now: UnixTime.now)?.description
                if !exchange.isReplay, let token, let refused = exchange.authorization {
                    return token.renew(refused: refused, at: UnixTime.now) { [self] isRenewed in
                        guard isRenewed else { return finish(exchange, result, response, on: connection) }
                        send(
                            exchange.envelope, exchange.expiry, timeout: exchange.timeout, for: exchange.requester,
                            isReplay: true)
                    }
                }
            }
            finish(exchange, result, response, on: connection)
        case .failure(let failure): exchange.requester.finish(failure.attemptResult)
        }
    }

    private func finish(_ exchange: Exchange, _ result: AttemptResult, _ response: Response, on connection: Int?) {
        if let connection { pool.apply(result.disposition.connection, to: connection) }
        exchange.requester.finish(result, response)
    }

    package func retire() { pool.retire() }

    package func close() { pool.close() }
}
