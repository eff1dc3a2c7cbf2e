// SPDX-License-Identifier: Apache-2.0

import HTTP2
import TNP
import Tables
import Time

/// FCM for one app under one service account.
package final class FCMProvider: Provider, ResponseReceiver {
    /// How long the node waits for FCM's answer. Google recommends at least 10 s; after 15 s, `limits.patience` (20 s
    /// by default) allows one more attempt on another connection.
    package static let answerTimeout = Duration.seconds(15)

    private let builder: FCMRequestBuilder
    private let token: FCMAccessToken
    private let pool: ConnectionPool
    private var exchanges = Slab<Exchange>()
    /// The last request, whose memory the next one reuses.
    private var request = Request(headers: HeaderBlock(), body: [])

    /// A request that waits for an access token or for its answer.
    private struct Exchange {
        let envelope: Envelope
        let expiry: Expiry
        let timeout: Duration
        let requester: Requester
        /// Whether FCM only validates the message.
        var isValidation = false
        /// The access token that the request carries.
        var authorization: [UInt8] = []
        var isReplay = false
    }

    /// Creates a provider.
    /// - Parameters:
    ///   - token: the access token of the service account.
    ///   - pool: the connections to the message endpoint.
    package init(_ builder: FCMRequestBuilder, token: FCMAccessToken, pool: ConnectionPool) {
        self.builder = builder
        self.token = token
        self.pool = pool
    }

    package func check(_ envelope: Envelope) throws(Rejection) { try builder.check(envelope) }

    package func attempt(_ envelope: Envelope, expiry: Expiry, number: UInt64, for receiver: any AttemptReceiver) {
        authorize(
            Exchange(
                envelope: envelope, expiry: expiry, timeout: Self.answerTimeout, requester: .attempt(number, receiver)))
    }

    /// Asks FCM to validate a message without delivering it (`validate_only`), to test the service account.
    /// - Parameter timeout: for each answer; fetching the access token has its own timeout.
    package nonisolated(nonsending) func probe(_ envelope: Envelope, timeout: Duration) async -> ProbeAnswer {
        await withUnsafeContinuation {
            authorize(
                Exchange(
                    envelope: envelope, expiry: .nowOrNever, timeout: timeout, requester: .probe($0),
                    isValidation: true))
        }
    }

    /// Sends the envelope once an access token is available.
    private func authorize(_ exchange: Exchange) {
        if let authorization = token.current(at: UnixTime.now) { return send(exchange, authorization) }
        token.fetch(at: UnixTime.now) { [self] result in
            switch result {
            case .success(let authorization): send(exchange, authorization)
            case .failure(let failure):
                var result: AttemptResult
                switch failure {
                case .refused(let text):
                    result = Disposition.misconfigured.attemptResult(answer: "access-token-refused")
                    result.detail = text
                case .unreachable(let text):
                    result = Disposition.unavailable(seconds: 30).attemptResult(answer: "access-token-unreachable")
                    result.detail = text
                }
                exchange.requester.finish(result)
            }
        }
    }

    private func send(_ exchange: Exchange, _ authorization: [UInt8]) {
        var exchange = exchange
        exchange.authorization = authorization
        do {
            try builder.write(
                &request, for: exchange.envelope, authorization: authorization,
                ttl: exchange.expiry.secondsLeft(at: UnixTime.now))
            // `validation` replaces the opening brace of the body.
            if exchange.isValidation { request.body = Self.validation + request.body.dropFirst() }
            let number = exchanges.insert(exchange).rawValue
            pool.start(request, timeout: exchange.timeout, number: number, for: self)
        } catch {
            exchange.requester.finish(AttemptResult(error))
        }
    }

    package func received(_ result: Result<Response, RequestFailure>, for number: UInt64, on connection: Int?) {
        guard var exchange = exchanges.remove(Slab.Handle(rawValue: number)) else { return }
        switch result {
        case .success(let response):
            var result = FCMAnswers.attemptResult(on: response)
            if let connection { pool.apply(result.disposition.connection, to: connection) }
            if result.disposition.credential == .renewed {
                // Once more, with a new access token.
                if !exchange.isReplay {
                    token.invalidate(exchange.authorization)
                    exchange.isReplay = true
                    return authorize(exchange)
                }
                result.detail = ClockSkew(response.headers, now: UnixTime.now)?.description
            }
            exchange.requester.finish(result, response)
        case .failure(let failure): exchange.requester.finish(failure.attemptResult)
        }
    }

    private static let validation = Array("{\"validate_only\":true,".utf8)

    package func retire() {
        token.retire()
        pool.retire()
    }

    package func close() {
        token.close()
        pool.close()
    }
}
