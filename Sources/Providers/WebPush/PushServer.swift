// SPDX-License-Identifier: Apache-2.0

import EventLoop
import HTTP1
import HTTP2
import TNP
import Tables
import Time

/// The connections to one push server, with the protocol that it speaks: HTTP/2 if ALPN selects it, else HTTP/1.1. Without
/// TLS, for onion services, it is always HTTP/1.1.
final class PushServer: ResponseReceiver, HTTPClientReceiver, @unchecked Sendable {
    // Unchecked: used on the loop's thread only.

    /// How to reach the server.
    struct Access {
        let endpoint: Endpoint
        let tls: WebPushProvider.TLS?
        let proxy: Proxy?
        let addresses: AddressPolicy
        let dialTimeout: Duration

        /// The server's name.
        var host: String { if case .tcp(let host, _) = endpoint { host } else { "" } }
    }

    /// The largest number of HTTP/2 connections to a server.
    private static let connections = 1...2

    private enum State {
        /// Nobody has asked the server yet.
        case unknown
        case asking
        case http2(Upstream)
        case http1(HTTPClient)
        case closed
    }

    private struct Waiting {
        let request: PushRequest
        let timeout: Duration
        let number: UInt64
    }

    private let access: Access
    private let loop: EventLoop
    private weak var owner: WebPushProvider?
    private var state = State.unknown
    private var waiting: [Waiting] = []
    /// The value of `Authorization`, and when it was made, in Unix time.
    private var authorization: (value: String, made: Int64)?
    /// Requests without a result.
    private(set) var inFlight = 0
    /// Whether the last request got no answer: the server may speak another protocol now.
    private var mayHaveChanged = false
    /// Orders the servers by their last use.
    var lastUse: UInt64 = 0

    init(_ access: Access, owner: WebPushProvider, on loop: EventLoop) {
        self.access = access
        self.owner = owner
        self.loop = loop
    }

    /// The value of `Authorization` for this server, renewed from time to time.
    func authorization(by key: VAPIDKey, origin: String, at now: Int64) -> String {
        if let authorization, (0..<VAPIDKey.renewal).contains(now - authorization.made) { return authorization.value }
        let value = key.authorization(for: origin, at: now)
        authorization = (value, now)
        return value
    }

    func start(_ request: PushRequest, timeout: Duration, number: UInt64) {
        if mayHaveChanged, inFlight == 0 { forgetProtocol() }
        inFlight += 1
        switch state {
        case .http2(let upstream): upstream.start(request.http2, timeout: timeout, number: number, for: self)
        case .http1(let client): client.start(request.http1, timeout: timeout, number: number, for: self)
        case .closed: finish(number, .failure(.notProcessed(.unreachable("closed locally"))))
        case .unknown, .asking:
            waiting.append(Waiting(request: request, timeout: timeout, number: number))
            ask()
        }
    }

    /// Closes the connections; requests without a response fail.
    func close() {
        let former = state
        state = .closed
        switch former {
        case .http2(let upstream): upstream.close()
        case .http1(let client): client.close()
        case .unknown, .asking, .closed: break
        }
        fail("closed locally")
    }

    // MARK: The protocol

    /// Closes connections without requests, so that the next request learns the protocol again.
    private func forgetProtocol() {
        mayHaveChanged = false
        switch state {
        case .http2(let upstream): upstream.close()
        case .http1(let client): client.close()
        case .unknown, .asking, .closed: return
        }
        state = .unknown
    }

    /// Opens a connection to learn the protocol of the server.
    private func ask() {
        guard case .unknown = state else { return }
        guard let tls = access.tls else { return use(.http1(client(nil))) }
        state = .asking
        Task(executorPreference: loop) { [self] in
            let result: Result<String?, StreamError>
            do throws(StreamError) {
                let stream = try await loop.dial(
                    access.endpoint, through: access.proxy, tls: tls.either, addresses: access.addresses,
                    timeout: access.dialTimeout)
                result = .success(stream.applicationProtocol)
                stream.close()
            } catch {
                result = .failure(error)
            }
            asked(result, tls)
        }
    }

    private func asked(_ result: Result<String?, StreamError>, _ tls: WebPushProvider.TLS) {
        guard case .asking = state else { return }
        switch result {
        case .success("h2"):
            use(
                .http2(
                    Upstream(
                        Upstream.Target(
                            endpoint: access.endpoint, tls: tls.http2, proxy: access.proxy, addresses: access.addresses,
                            dialTimeout: access.dialTimeout, connections: Self.connections), on: loop)))
        case .success: use(.http1(client(tls.http1)))
        case .failure(let error):
            state = .unknown
            fail("\(error)")
        }
    }

    private func client(_ tls: TLSContext?) -> HTTPClient {
        HTTPClient(
            HTTPClient.Target(
                endpoint: access.endpoint, tls: tls, proxy: access.proxy, addresses: access.addresses,
                dialTimeout: access.dialTimeout), on: loop)
    }

    private func use(_ state: State) {
        self.state = state
        mayHaveChanged = false
        let all = waiting
        waiting = []
        inFlight -= all.count
        for one in all { start(one.request, timeout: one.timeout, number: one.number) }
    }

    private func fail(_ reason: String) {
        let all = waiting
        waiting = []
        for one in all { finish(one.number, .failure(.notProcessed(.unreachable(reason)))) }
    }

    // MARK: Results

    /// What the server answered: its status and `Retry-After`.
    typealias Answer = Result<(status: Int, retryAfter: String?), RequestFailure>

    private func finish(_ number: UInt64, _ answer: Answer) {
        inFlight -= 1
        mayHaveChanged = if case .failure = answer { true } else { false }
        owner?.answered(number, answer, by: access)
    }

    func received(_ result: Result<Response, RequestFailure>, for number: UInt64, on connection: Int?) {
        finish(number, result.map { ($0.status, $0.headers.text("retry-after")) })
    }

    func received(_ result: Result<HTTPClientResponse, HTTPClientFailure>, for number: UInt64) {
        switch result {
        case .success(let response):
            let retryAfter = response.fields.first { $0.name == "retry-after" }?.value
            finish(number, .success((response.status, retryAfter)))
        case .failure(let failure): finish(number, .failure(RequestFailure(failure)))
        }
    }
}

extension RequestFailure {
    init(_ failure: HTTPClientFailure) {
        self =
            switch failure {
            case .unreachable(let error): .notProcessed(.unreachable("\(error)"))
            case .noConnection: .notProcessed(.timedOut)
            case .lost(let reason): .outcomeUnknown(.connectionLost(reason))
            case .timedOut: .outcomeUnknown(.timedOut)
            case .tooLarge: .outcomeUnknown(.responseTooLarge)
            }
    }
}
