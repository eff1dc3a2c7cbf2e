// SPDX-License-Identifier: Apache-2.0

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

        /// - Parameter authorities: PEM certificates to trust in addition to the system's.
        /// - Throws: `TLSContext.SetupError`.
        package init(authorities: [UInt8]?) throws {
            either = try TLSContext.client(
                extraAuthorities: authorities, applicationProtocol: "h2", fallback: "http/1.1")
            http2 = try TLSContext.client(extraAuthorities: authorities, applicationProtocol: "h2")
            http1 = try TLSContext.client(extraAuthorities: authorities, applicationProtocol: nil)
        }
    }

    /// How the node reaches push servers.
    package struct Paths: Sendable, Hashable {
        /// The proxy for servers on the internet; `nil` to connect directly.
        package var proxy: Proxy?
        /// The SOCKS port of a tor, for onion services; `nil` if the node has none.
        package var socks: Endpoint?

        /// - Parameters: as the properties of the same names.
        package init(proxy: Proxy?, socks: Endpoint?) {
            self.proxy = proxy
            self.socks = socks
        }
    }

    /// How long the node waits for a server's answer, as for FCM.
    package static let answerTimeout = Duration.seconds(15)
    /// A proxy such as tor has circuits to build first.
    private static let (directDialTimeout, proxyDialTimeout) = (Duration.seconds(10), Duration.seconds(30))
    /// The largest number of servers with connections: a lane of Delivery for each, and as many that change places.
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
    private let paths: Paths
    private let loop: EventLoop
    private var servers: [String: PushServer] = [:]
    private var uses: UInt64 = 0
    private var exchanges = Slab<Exchange>()
    private var isRetired = false
    private var isClosed = false

    /// Creates a provider.
    /// - Parameter notice: what phones show for notifications that are not encrypted for Web Push (PROTOCOL §15).
    package init(
        _ key: VAPIDKey, policy: PushServerPolicy, notice: String, tls: TLS, paths: Paths, on loop: EventLoop
    ) {
        self.key = key
        self.policy = policy
        self.notice = notice
        self.tls = tls
        self.paths = paths
        self.loop = loop
    }

    package var pushServers: Set<String>? { policy.namedOrigins }

    package func check(_ envelope: Envelope) throws(Rejection) { _ = try access(to: envelope) }

    package func attempt(_ envelope: Envelope, expiry: Expiry, number: UInt64, for receiver: any AttemptReceiver) {
        loop.preconditionOnLoop()
        let (endpoint, access): (PushEndpoint, PushServer.Access)
        do throws(Rejection) {
            (endpoint, access) = try self.access(to: envelope)
        } catch {
            return receiver.attempted(number, AttemptResult(error))
        }
        guard !isClosed, let server = server(of: endpoint, access) else {
            return receiver.attempted(number, TransportEvent.noCapacity.disposition.attemptResult(answer: "no-place"))
        }
        let now = UnixTime.now
        let request = PushRequest(
            envelope, to: endpoint, ttl: expiry.secondsLeft(at: now),
            authorization: server.authorization(by: key, origin: endpoint.origin, at: now), notice: notice)
        let handle = exchanges.insert(Exchange(number: number, receiver: receiver))
        server.start(request, timeout: Self.answerTimeout, number: handle.rawValue)
    }

    /// The server of an envelope's endpoint, and how to reach it.
    private func access(to envelope: Envelope) throws(Rejection) -> (PushEndpoint, PushServer.Access) {
        guard let endpoint = try? PushEndpoint(envelope.deviceToken) else { throw Rejection(.deviceTokenFormat) }
        guard envelope.magic == .web || !endpoint.path.contains(UInt8(ascii: "?")) else {
            throw Rejection(.deviceTokenFormat, "a push endpoint under the magic android must have no query")
        }
        guard let addresses = policy.addresses(for: endpoint) else {
            throw Rejection(.deviceTokenFormat, "this node does not deliver to this push server")
        }
        guard policy.allowsQuery(of: endpoint) else {
            throw Rejection(
                .deviceTokenFormat,
                "this node delivers to push endpoints with a query other than up=1 only at some servers"
            )
        }
        guard !endpoint.isOnion || paths.socks != nil else {
            throw Rejection(.deviceTokenFormat, "this node does not deliver to onion services")
        }
        let proxy = endpoint.isOnion ? paths.socks.map { Proxy.socks5($0, nil) } : paths.proxy
        return (
            endpoint,
            PushServer.Access(
                endpoint: .tcp(host: endpoint.host, port: endpoint.port), tls: endpoint.isSecure ? tls : nil,
                proxy: proxy, addresses: addresses,
                dialTimeout: proxy == nil ? Self.directDialTimeout : Self.proxyDialTimeout)
        )
    }

    /// The connections to a server; `nil` if there are too many servers, and all have requests in flight.
    private func server(of endpoint: PushEndpoint, _ access: PushServer.Access) -> PushServer? {
        uses += 1
        let origin = endpoint.origin
        if let server = servers[origin] {
            server.lastUse = uses
            return server
        }
        if servers.count >= Self.maximumServers {
            let idle = servers.filter { $0.value.inFlight == 0 }.min { $0.value.lastUse < $1.value.lastUse }
            guard let idle else { return nil }
            servers[idle.key] = nil
            idle.value.close()
        }
        let server = PushServer(access, owner: self, on: loop)
        server.lastUse = uses
        servers[origin] = server
        return server
    }

    func answered(_ handle: UInt64, _ answer: PushServer.Answer, by access: PushServer.Access) {
        guard let exchange = exchanges.remove(Slab.Handle(rawValue: handle)) else { return }
        let result: AttemptResult
        switch answer {
        case .success(let (status, retryAfter)):
            result = WebPushAnswers.attemptResult(status: status, retryAfter: retryAfter, from: access.host)
        case .failure(let failure):
            var failed = failure.attemptResult
            failed.detail = failed.detail.map { Self.anonymous($0, access) }
            result = failed
        }
        exchange.receiver.attempted(exchange.number, result)
        closeIfDone()
    }

    /// The text without the server's name: a server that few use tells who they are.
    private static func anonymous(_ text: String, _ access: PushServer.Access) -> String {
        let host = access.host
        guard !host.isEmpty else { return text }
        return text.replacing("\(access.endpoint)", with: "the push server").replacing(host, with: "the push server")
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
        servers = [:]
        for server in all { server.close() }
    }
}
