// SPDX-License-Identifier: Apache-2.0

import EventLoop
import HTTP1
import HTTP2
import TNP
import Time

/// The connections to one push server, with the version of HTTP that it speaks, as ``PushServerState`` decides.
final class PushServer: ResponseReceiver, HTTPClientReceiver, @unchecked Sendable {
    // Unchecked: used on the loop's thread only.

    /// Minimum and maximum number of HTTP/2 connections to a server.
    private static let connections = 1...2

    /// The open connections.
    private enum Connections {
        case http2(ConnectionPool)
        case http1(HTTPClient)
    }

    private struct Waiting {
        let request: PushRequest
        let timeout: Duration
    }

    private let server: PushServerRoute.Server
    private let tls: WebPushProvider.TLS
    private let loop: EventLoop
    private weak var owner: WebPushProvider?
    private var state: PushServerState
    private var connections: Connections?
    /// The requests that have not been sent.
    private var waiting: [UInt64: Waiting] = [:]
    /// The value of `Authorization`, and when it was made, Unix time in seconds.
    private var authorization: (value: String, made: Int64)?

    init(_ server: PushServerRoute.Server, tls: WebPushProvider.TLS, owner: WebPushProvider, on loop: EventLoop) {
        self.server = server
        self.tls = tls
        self.owner = owner
        self.loop = loop
        state = PushServerState(isSecure: server.isSecure)
    }

    /// Whether every request has its result.
    var isIdle: Bool { state.inFlight == 0 }

    /// The value of `Authorization` for this server, renewed at the age of ``VAPIDKey/renewal``.
    func authorization(by key: VAPIDKey, origin: String, at now: Int64) -> String {
        if let authorization, (0..<VAPIDKey.renewal).contains(now - authorization.made) { return authorization.value }
        let value = key.authorization(for: origin, at: now)
        authorization = (value, now)
        return value
    }

    func start(_ request: PushRequest, timeout: Duration, number: UInt64) {
        waiting[number] = Waiting(request: request, timeout: timeout)
        update { $0.start(number, &$1) }
    }

    /// Closes the connections; requests without a response fail.
    func close() { update { $0.close(&$1) } }

    private func update(_ event: (inout PushServerState, inout [PushServerState.Action]) -> Void) {
        var actions: [PushServerState.Action] = []
        event(&state, &actions)
        for action in actions { perform(action) }
    }

    private func perform(_ action: PushServerState.Action) {
        switch action {
        case .negotiate: negotiate()
        case .open(.version1):
            let destination = server.destination.with(server.isSecure ? tls.http1 : nil)
            connections = .http1(HTTPClient(destination, on: loop))
        case .open(.version2):
            let destination = server.destination.with(tls.http2)
            connections = .http2(ConnectionPool(destination, connections: Self.connections, on: loop))
        case .send(let number):
            guard let next = waiting.removeValue(forKey: number) else { return }
            send(next, number)
        case .fail(let number, let reason):
            waiting[number] = nil
            finish(number, .failure(.notProcessed(.unreachable(reason))))
        case .close:
            switch connections.take() {
            case .http2(let pool): pool.close()
            case .http1(let client): client.close()
            case nil: break
            }
        }
    }

    private func negotiate() {
        loop.dial(server.destination.with(tls.either)) { [self] result in
            let answer = result.map { $0.applicationProtocol == "h2" ? PushServerState.HTTP.version2 : .version1 }
            if case .success(let stream) = result { stream.close() }
            update { $0.negotiated(answer.mapError { PushServerState.Failure(reason: "\($0)") }, &$1) }
        }
    }

    private func send(_ next: Waiting, _ number: UInt64) {
        switch connections {
        case .http2(let pool): pool.start(next.request.http2, timeout: next.timeout, number: number, for: self)
        case .http1(let client): client.start(next.request.http1, timeout: next.timeout, number: number, for: self)
        // An earlier request failed at once, and its receiver closed the provider.
        case nil: finish(number, .failure(.notProcessed(.unreachable("closed locally"))))
        }
    }

    // MARK: Results

    /// What the server answered: its status and `Retry-After`.
    typealias Answer = Result<(status: Int, retryAfter: String?), RequestFailure>

    private func finish(_ number: UInt64, _ answer: Answer) {
        state.finished(isAnswered: (try? answer.get()) != nil)
        owner?.answered(number, answer, by: server)
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
            case .closed: .notProcessed(.unreachable("closed locally"))
            case .lost(let reason): .outcomeUnknown(.connectionLost(reason))
            case .timedOut: .outcomeUnknown(.timedOut)
            case .tooLarge: .outcomeUnknown(.responseTooLarge)
            }
    }
}
