// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP

/// The push server of an envelope, and how the node reaches it.
package struct PushServerRoute {
    /// The proxies through which a node reaches push servers.
    package struct Proxies: Sendable, Hashable {
        /// The proxy for servers on the internet; `nil` to connect directly.
        package var proxy: Proxy?
        /// The SOCKS port of a tor, for onion services; `nil` if the node has none.
        package var socks: Endpoint?

        package init(proxy: Proxy?, socks: Endpoint?) {
            self.proxy = proxy
            self.socks = socks
        }
    }

    /// The timeouts for a connection: longer through a proxy, because tor builds circuits first.
    private static let (directTimeout, proxyTimeout) = (Duration.seconds(10), Duration.seconds(30))

    /// A push server, and how the node connects to it. Holds nothing that belongs to one phone.
    struct Server {
        /// The server, without TLS settings.
        let destination: Destination
        let host: String
        /// Whether the server is reached over TLS.
        let isSecure: Bool

        /// Removes the server's name from a text: the name of a server that few use can identify its users.
        func anonymous(_ text: String) -> String {
            guard !host.isEmpty else { return text }
            return text.replacing("\(destination.endpoint)", with: "the push server")
                .replacing(host, with: "the push server")
        }
    }

    let endpoint: PushEndpoint
    let server: Server

    /// - Throws: `Rejection` with reason 102 if the device token is no push endpoint, or the node does not deliver
    ///   there.
    init(to envelope: Envelope, by policy: PushServerPolicy, over proxies: Proxies) throws(Rejection) {
        guard let endpoint = envelope.pushEndpoint else { throw Rejection(.deviceTokenFormat) }
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
        guard !endpoint.isOnion || proxies.socks != nil else {
            throw Rejection(.deviceTokenFormat, "this node does not deliver to onion services")
        }
        let proxy = endpoint.isOnion ? proxies.socks.map { Proxy.socks5($0, nil) } : proxies.proxy
        self.endpoint = endpoint
        server = Server(
            destination: Destination(
                .tcp(host: endpoint.host, port: endpoint.port), through: proxy, addresses: addresses,
                timeout: proxy == nil ? Self.directTimeout : Self.proxyTimeout),
            host: endpoint.host, isSecure: endpoint.isSecure)
    }
}
