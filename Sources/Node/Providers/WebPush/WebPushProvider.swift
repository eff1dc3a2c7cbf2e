// SPDX-License-Identifier: Apache-2.0

import Dispatch
import EventLoop
import HTTP1
import HTTP2
import TNP
import Tables
import Time

/// Web Push (RFC 8030) for one app: the servers that its senders' device tokens name, within the limits of a
/// ``PushServerPolicy``.
package final class WebPushProvider: Provider, @unchecked Sendable {
    // Unchecked: used on the loop's thread only, which the servers' connections run on.

    /// The TLS settings.
    package struct TLS: Sendable {
        /// Offers both versions of HTTP.
        package let either: TLSContext
        /// Requires HTTP/2.
        package let http2: TLSContext
        /// Offers no protocol: the server then speaks HTTP/1.1.
        package let http1: TLSContext

        /// Runs the steps of all handshakes, one at a time and off the loop: a stranger may make the node connect to
        /// many servers with the largest keys and longest chains that are allowed.
        private static let handshakes = DispatchQueue(label: "push servers' TLS")

        /// - Throws: `TLSContext.SetupError`.
        package init(authorities: TrustedAuthorities) throws {
            func context(_ applicationProtocol: String?, _ fallback: String? = nil) throws -> TLSContext {
                try TLSContext.client(
                    authorities: authorities, applicationProtocol: applicationProtocol, fallback: fallback,
                    handshakeThreads: Self.handshakes)
            }
            either = try context("h2", "http/1.1")
            http2 = try context("h2")
            http1 = try context(nil)
        }
    }

    /// How long the node waits for a server's answer, as for FCM.
    package static let answerTimeout = Duration.seconds(15)
    /// The largest number of servers with connections: twice the lanes of an app, because a server may have requests in
    /// flight when another gets its lane.
    private static let maximumServers = 128
    /// The largest number of connections, to all servers together.
    package static let maximumConnections = maximumServers * HTTPClient.maximumConnections

    private struct Exchange {
        let number: UInt64
        let receiver: any AttemptReceiver
    }

    private let key: VAPIDKey
    private let policy: PushServerPolicy
    private let notice: String
    private let tls: TLS
    private let proxies: PushServerRoute.Proxies
    private let loop: EventLoop
    private var servers = LRUTable<String, PushServer>(maximum: WebPushProvider.maximumServers)
    private var exchanges = Slab<Exchange>()
    private var isRetired = false
    private var isClosed = false

    /// Creates a provider.
    /// - Parameter notice: what phones show for notifications that are not encrypted for Web Push (PROTOCOL §15).
    package init(
        _ key: VAPIDKey, policy: PushServerPolicy, notice: String, tls: TLS, proxies: PushServerRoute.Proxies,
        on loop: EventLoop
    ) {
        self.key = key
        self.policy = policy
        self.notice = notice
        self.tls = tls
        self.proxies = proxies
        self.loop = loop
    }

    package var pushServers: Set<String>? { policy.namedOrigins }

    package func check(_ envelope: Envelope) throws(Rejection) {
        _ = try PushServerRoute(to: envelope, by: policy, over: proxies)
    }

    package func attempt(_ envelope: Envelope, expiry: Expiry, number: UInt64, for receiver: any AttemptReceiver) {
        loop.preconditionOnLoop()
        let route: PushServerRoute
        do throws(Rejection) {
            route = try PushServerRoute(to: envelope, by: policy, over: proxies)
        } catch {
            return receiver.attempted(number, AttemptResult(error))
        }
        guard !isClosed, let server = server(for: route) else {
            return receiver.attempted(number, TransportEvent.noCapacity.disposition.attemptResult(answer: "no-place"))
        }
        let now = UnixTime.now
        let endpoint = route.endpoint
        let request = PushRequest(
            envelope, to: endpoint, ttl: expiry.secondsLeft(at: now),
            authorization: server.authorization(by: key, origin: endpoint.origin, at: now), notice: notice)
        let handle = exchanges.insert(Exchange(number: number, receiver: receiver))
        server.start(request, timeout: Self.answerTimeout, number: handle.rawValue)
    }

    /// The connections to a server; `nil` if there are too many servers, and all have requests in flight.
    private func server(for route: PushServerRoute) -> PushServer? {
        let origin = route.endpoint.origin
        switch servers.slot(for: origin, isIdle: \.isIdle) {
        case .known(let server): return server
        case .full: return nil
        case .new(let evicted):
            evicted?.close()
            let server = PushServer(route.server, tls: tls, owner: self, on: loop)
            servers.insert(server, for: origin)
            return server
        }
    }

    func answered(_ handle: UInt64, _ answer: PushServer.Answer, by server: PushServerRoute.Server) {
        guard let exchange = exchanges.remove(Slab.Handle(rawValue: handle)) else { return }
        let result: AttemptResult
        switch answer {
        case .success(let (status, retryAfter)):
            result = WebPushAnswers.attemptResult(status: status, retryAfter: retryAfter, from: server.host)
        case .failure(let failure):
            var failed = failure.attemptResult
            failed.detail = failed.detail.map { server.anonymous($0) }
            result = failed
        }
        exchange.receiver.attempted(exchange.number, result)
        closeIfDone()
    }

    package func retire() {
        isRetired = true
        closeIfDone()
    }

    private func closeIfDone() {
        if isRetired, exchanges.count == 0 { close() }
    }

    package func close() {
        guard !isClosed else { return }
        isClosed = true
        let all = servers.values
        servers = LRUTable(maximum: Self.maximumServers)
        for server in all { server.close() }
    }
}
