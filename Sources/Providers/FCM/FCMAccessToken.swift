// SPDX-License-Identifier: Apache-2.0

import EventLoop
import FoundationEssentials
import HTTP2
import TNP
import Time

/// Google's access token: fetched once for all who wait for it, kept, and renewed before it ends.
package final class FCMAccessToken {
    /// Why there is none.
    enum Failure: Error, Equatable {
        /// Google refuses the service account; nobody but the operator can help.
        case refused
        /// The token endpoint could not be reached or is out of order.
        case unreachable
    }

    /// Seconds before its end at which the token is renewed.
    package static let renewedBefore: Int64 = 300
    private static let pauseAfterFailure: Int64 = 10
    /// What says that the account is wrong (RFC 6749 §5.2); other errors pass.
    private static let refusals: Set<Int> = [400, 401, 403, 404]
    /// For all of them together.
    private static let answerTimeout = Duration.seconds(20)
    /// Requests that got no answer are sent again at once, so often: all of Google's envelopes wait for this one, and to
    /// ask for a token twice does no harm.
    private static let replays = 16

    private let account: ServiceAccount
    private let upstream: Upstream
    private let headers: HeaderBlock
    private var current: (header: [UInt8], endsAt: Int64)?
    /// After a fetch that failed while the token was still good: when there is another, Unix time in seconds.
    private var nextFetch: Int64 = 0
    private var isFetching = false
    private var waiting: [UnsafeContinuation<Result<[UInt8], Failure>, Never>] = []

    /// - Parameters:
    ///   - authority: host of the token endpoint, with its port where that is not 443.
    ///   - path: of the token endpoint.
    ///   - upstream: the token endpoint.
    package init(_ account: ServiceAccount, authority: String, path: String, upstream: Upstream) {
        self.account = account
        self.upstream = upstream
        var headers = HeaderBlock()
        headers.append(":method", "POST")
        headers.append(":scheme", "https")
        headers.append(":authority", authority)
        headers.append(":path", path)
        headers.append("content-type", "application/x-www-form-urlencoded")
        self.headers = headers
    }

    /// The value of `authorization` at this Unix time in seconds.
    nonisolated(nonsending) func authorization(at now: Int64) async throws(Failure) -> [UInt8] {
        if let current, now < current.endsAt - Self.renewedBefore || (now < current.endsAt && now < nextFetch) {
            return current.header
        }
        if isFetching {
            // Renewed early for this very case: nobody waits for a new one while the old one is good.
            if let current, now < current.endsAt { return current.header }
            return try await withUnsafeContinuation { waiting.append($0) }.get()
        }
        isFetching = true
        let start = MonotonicTime.now
        var result = await fetch(now: now)
        if case .failure = result {
            let later = now + (MonotonicTime.now - start).components.seconds
            nextFetch = later + Self.pauseAfterFailure
            if let current, later < current.endsAt { result = .success(current.header) }
        }
        isFetching = false
        let others = waiting
        waiting = []
        for continuation in others { continuation.resume(returning: result) }
        return try result.get()
    }

    /// Forgets the token where it is still this one: Google no longer honours it.
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
                case .unreachable, .noPlace, .timedOut, .responseTooLarge: return nil
                }
            }
        }
        return nil
    }
}
