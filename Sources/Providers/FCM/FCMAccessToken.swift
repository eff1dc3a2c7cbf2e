// SPDX-License-Identifier: Apache-2.0

import EventLoop
import FoundationEssentials
import HTTP2
import TNP
import Time

/// The OAuth access token for FCM. One fetch serves all concurrent callers; the token is cached and renewed before it
/// expires.
package final class FCMAccessToken {
    /// Why no token is available.
    enum Failure: Error, Equatable {
        /// Google refuses the service account; only the operator can fix this.
        case refused
        /// The token endpoint cannot be reached or fails.
        case unreachable
    }

    /// How many seconds before its expiry the token is renewed.
    package static let renewalMargin: Int64 = 300
    /// Seconds between a failed renewal and the next one, while the current token is still valid.
    private static let pauseAfterFailure: Int64 = 10
    /// HTTP statuses that mean that Google refuses the account (RFC 6749 §5.2); other errors are transient.
    private static let refusals: Set<Int> = [400, 401, 403, 404]
    /// Timeout for a fetch, including its replays.
    private static let answerTimeout = Duration.seconds(20)
    /// How often a token request without an answer is resent, each time without delay: all FCM envelopes wait for the
    /// token, and requesting it twice is harmless.
    private static let replays = 16

    private let account: ServiceAccount
    private let upstream: Upstream
    private let headers: HeaderBlock
    private var current: (header: [UInt8], expiresAt: Int64)?
    /// The earliest next fetch after a fetch that failed while the token was still valid; Unix time in seconds.
    private var nextFetch: Int64 = 0
    private var isFetching = false
    private var waiting: [UnsafeContinuation<Result<[UInt8], Failure>, Never>] = []

    /// Creates a token that is fetched on first use.
    /// - Parameters:
    ///   - authority: host of the token endpoint, with its port if that is not 443.
    ///   - path: path of the token endpoint.
    ///   - upstream: the connections to the token endpoint.
    package init(_ account: ServiceAccount, authority: String, path: String, upstream: Upstream) {
        self.account = account
        self.upstream = upstream
        var headers = HeaderBlock(postTo: authority)
        headers.append(":path", path)
        headers.append("content-type", "application/x-www-form-urlencoded")
        self.headers = headers
    }

    /// The value of the `authorization` header.
    /// - Parameter now: Unix time in seconds.
    nonisolated(nonsending) func authorization(at now: Int64) async throws(Failure) -> [UInt8] {
        if let current, now < current.expiresAt - Self.renewalMargin || (now < current.expiresAt && now < nextFetch) {
            return current.header
        }
        if isFetching {
            // A renewal is in flight; the current token serves until it expires.
            if let current, now < current.expiresAt { return current.header }
            return try await withUnsafeContinuation { waiting.append($0) }.get()
        }
        isFetching = true
        let start = MonotonicTime.now
        var result = await fetch(now: now)
        if case .failure = result {
            let later = now + (MonotonicTime.now - start).components.seconds
            nextFetch = later + Self.pauseAfterFailure
            if let current, later < current.expiresAt { result = .success(current.header) }
        }
        isFetching = false
        let others = waiting
        waiting = []
        for continuation in others { continuation.resume(returning: result) }
        return try result.get()
    }

    /// Discards the current token if it has this header, which Google has rejected.
    func invalidate(_ header: [UInt8]) {
        if current?.header == header { current = nil }
    }

    func retire() { upstream.retire() }

    func close() { upstream.close() }

    private nonisolated(nonsending) func fetch(now: Int64) async -> Result<[UInt8], Failure> {
        let grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="
        let request = Request(headers: headers, body: Array(grant.utf8) + account.assertion(now: now))
        struct Grant: Decodable {
            let access_token: String
            let expires_in: Int64
        }
        guard let response = await answer(to: request) else { return .failure(.unreachable) }
        guard response.status == 200 else {
            return .failure(Self.refusals.contains(response.status) ? .refused : .unreachable)
        }
        guard let grant = try? JSONDecoder().decode(Grant.self, from: Data(response.body)), grant.expires_in > 0,
            grant.expires_in <= 86_400, grant.access_token.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
        else { return .failure(.unreachable) }
        let header = Array("Bearer \(grant.access_token)".utf8)
        current = (header, now + grant.expires_in)
        return .success(header)
    }

    private nonisolated(nonsending) func answer(to request: Request) async -> Response? {
        let deadline = MonotonicTime.now + Self.answerTimeout
        for _ in 0...Self.replays {
            let left = deadline - .now
            guard left > .zero else { return nil }
            do {
                return try await upstream.send(request, timeout: left)
            } catch {
                switch TransportEvent(error) {
                case .refusedStream, .goAway, .lostBeforeSent, .connectionLost, .reset: continue
                case .unreachable, .noCapacity, .timedOut, .responseTooLarge: return nil
                }
            }
        }
        return nil
    }
}
