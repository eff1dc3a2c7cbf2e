// SPDX-License-Identifier: Apache-2.0

import EventLoop
import HTTP2
import TNP
import Time

/// The OAuth access token for FCM. One fetch serves all concurrent callers; the token is cached and renewed before it
/// expires.
package final class FCMAccessToken: ResponseReceiver {
    /// Why no token is available.
    enum Failure: Error, Equatable {
        /// Google refuses the service account, for this reason; only the operator can fix this.
        case refused(String)
        /// The token endpoint cannot be reached or fails, for this reason.
        case unreachable(String)
    }

    /// How many seconds before its expiry the token is renewed.
    package static let renewalMargin: Int64 = 300
    /// Seconds between a failed renewal and the next one, while the current token is still valid.
    private static let pauseAfterFailure: Int64 = 10
    /// Timeout for a fetch, including its replays.
    private static let answerTimeout = Duration.seconds(20)
    /// How often a fetch resends a request that was lost or refused, without delay: all FCM envelopes wait for the
    /// token, and requesting it twice is harmless.
    private static let replays = 16

    private let account: any AssertionIssuer
    private let pool: ConnectionPool
    private let headers: HeaderBlock
    private var current: (header: [UInt8], expiresAt: Int64)?
    /// The earliest next fetch after a fetch that failed while the token was still valid; Unix time in seconds.
    private var nextFetch: Int64 = 0
    private var fetching: Fetch?
    /// Whether a fetch waits for its assertion.
    private var isAsking = false
    private var waiting: [(Result<[UInt8], Failure>) -> Void] = []

    /// A fetch in progress.
    private struct Fetch {
        let request: Request
        /// When it began, Unix time in seconds.
        let unixTime: Int64
        let started: MonotonicTime
        var replaysLeft = FCMAccessToken.replays
    }

    /// Creates a token that is fetched on first use.
    /// - Parameters:
    ///   - authority: host of the token endpoint, with its port if that is not 443.
    ///   - path: path of the token endpoint.
    ///   - pool: the connections to the token endpoint.
    package init(_ account: any AssertionIssuer, authority: String, path: String, pool: ConnectionPool) {
        self.account = account
        self.pool = pool
        var headers = HeaderBlock(postTo: authority)
        headers.append(":path", path)
        headers.append("content-type", "application/x-www-form-urlencoded")
        self.headers = headers
    }

    /// The value of the `authorization` header; `nil` if ``fetch(at:_:)`` has to be called first.
    /// - Parameter now: Unix time in seconds.
    func current(at now: Int64) -> [UInt8]? {
        guard let current, now < current.expiresAt else { return nil }
        // During a renewal, and for a while after a failed one, the current token serves until it expires.
        let isRenewed = now < current.expiresAt - Self.renewalMargin || now < nextFetch || fetching != nil || isAsking
        return isRenewed ? current.header : nil
    }

    /// Fetches a token, or waits for the fetch that is in progress.
    /// - Parameters:
    ///   - now: Unix time in seconds.
    ///   - done: receives the value of the `authorization` header.
    func fetch(at now: Int64, _ done: @escaping (Result<[UInt8], Failure>) -> Void) {
        waiting.append(done)
        guard fetching == nil, !isAsking else { return }
        isAsking = true
        account.assertion(at: now) { [self] assertion in
            isAsking = false
            fetch(with: assertion, at: now)
        }
    }

    private func fetch(with assertion: [UInt8]?, at now: Int64) {
        guard let assertion else {
            return answer(.failure(.unreachable("the key holder does not sign for the service account")), at: now)
        }
        let grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="
        fetching = Fetch(
            request: Request(headers: headers, body: Array(grant.utf8) + assertion), unixTime: now,
            started: .now)
        send()
    }

    /// Discards the current token if it has this header, which Google has rejected.
    func invalidate(_ header: [UInt8]) {
        if current?.header == header { current = nil }
    }

    func retire() { pool.retire() }

    func close() { pool.close() }

    private func send() {
        guard let fetching else { return }
        let left = fetching.started + Self.answerTimeout - .now
        guard left > .zero else { return finish(.failure(.unreachable("the token endpoint does not answer"))) }
        pool.start(fetching.request, timeout: left, number: 0, for: self)
    }

    package func received(_ result: Result<Response, RequestFailure>, for number: UInt64, on connection: Int?) {
        guard let replaysLeft = fetching?.replaysLeft else { return }
        switch result {
        case .success(let response): finish(grant(in: response))
        case .failure(let failure):
            let event = TransportEvent(failure)
            let text = "the token endpoint: \(event.rawValue)"
            switch event {
            case .refusedStream, .goAway, .lostBeforeSent, .connectionLost, .reset:
                guard replaysLeft > 0 else { return finish(.failure(.unreachable(text))) }
                fetching?.replaysLeft -= 1
                send()
            case .unreachable, .noCapacity, .timedOut, .responseTooLarge: finish(.failure(.unreachable(text)))
            }
        }
    }

    private func grant(in response: Response) -> Result<[UInt8], Failure> {
        switch AccessTokenResponse(response) {
        case .granted(let header, let lifetime):
            if let fetching { current = (header, fetching.unixTime + lifetime) }
            return .success(header)
        case .failed(let failure): return .failure(failure)
        }
    }

    private func finish(_ fetched: Result<[UInt8], Failure>) {
        guard let fetching else { return }
        self.fetching = nil
        answer(fetched, at: fetching.unixTime + (MonotonicTime.now - fetching.started).components.seconds)
    }

    /// Passes a result to all waiting callers. While the current token is valid, they get it instead of a failure.
    private func answer(_ fetched: Result<[UInt8], Failure>, at now: Int64) {
        var result = fetched
        if case .failure = fetched {
            nextFetch = now + Self.pauseAfterFailure
            if let current, now < current.expiresAt { result = .success(current.header) }
        }
        let others = waiting
        waiting = []
        for done in others { done(result) }
    }
}
