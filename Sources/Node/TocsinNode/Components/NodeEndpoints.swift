// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Admission
import EventLoop
import NodeConfiguration
import Tor

/// What the node listens on: the endpoints of senders, and the admin port.
final class NodeEndpoints: NodeComponent {
    private let configuration: Configuration
    private let connections: SenderConnections
    private let loop: EventLoop
    private var listeners: [Listener] = []
    /// The address of the HTTP endpoint, if there is one.
    private(set) var http: Endpoint?
    /// The address of the HTTP endpoint for senders without tor, if there is one.
    private(set) var directHTTP: Endpoint?
    private(set) var admin: AdminServer?

    init(_ configuration: Configuration, for connections: SenderConnections, on loop: EventLoop) {
        self.configuration = configuration
        self.connections = connections
        self.loop = loop
    }

    /// Binds all addresses, and pauses those of senders: an address in use must stop the start before anything is
    /// delivered, and connections wait until the spool of an earlier process has been read.
    /// - Parameter source: what the admin port shows.
    /// - Returns: the address of the TNP endpoint.
    /// - Throws: `PortError`, or `ConfigurationError` if the admin port's token cannot be read.
    func listen(for source: any AdminServer.Source) throws -> Endpoint {
        let tnp = try listen(at: configuration.listen.tnp, .tnp, "listen.tnp")
        let http = try configuration.listen.http.map { try listen(at: $0, .http, "listen.http") }
        let directHTTP = try configuration.listen.directHTTP.map {
            try listen(at: $0, .directHTTP, "listen.direct_http")
        }
        listeners = [tnp, http, directHTTP].compactMap(\.self)
        self.http = http?.endpoint
        self.directHTTP = directHTTP?.endpoint
        if let endpoint = configuration.listen.admin {
            let token = try configuration.adminToken()
            admin = try PortError.naming("listen.admin") { () throws(ListenError) in
                try AdminServer(at: endpoint, token: token, on: loop, source: source)
            }
        }
        return tnp.endpoint
    }

    /// Tests whether the node could listen, without listening: a test that listens would take the address from a node
    /// that starts meanwhile.
    /// - Throws: as ``listen(for:)``.
    func rehearse() throws {
        _ = try configuration.adminToken()
        for (key, endpoint) in configuration.listen.endpoints {
            if let failure = configuration.listen.obstacle(to: endpoint) { throw PortError(key: key, failure: failure) }
        }
    }

    private func listen(
        at endpoint: Endpoint, _ sender: SenderConnections.SenderEndpoint, _ key: String
    ) throws(PortError) -> Listener {
        let listener = try PortError.naming(key) { () throws(ListenError) in
            // A tor that the node starts runs as the node's user; one that systemd or the operator starts is in the
            // node's group.
            let isForNode = configuration.tor.managed == true && configuration.tor.runner == .node
            return try Listener(endpoint, on: loop, mode: isForNode ? 0o600 : 0o660) { [unowned connections] stream in
                connections.accept(stream, at: sender)
            }
        }
        listener.pause()
        return listener
    }

    /// Makes the admin port ask its clients for the token that the file contains after a reload. Another file takes
    /// effect after a restart.
    func use(_ token: AdminToken?, of configuration: Configuration) {
        guard self.configuration.listen.adminTokenFile == configuration.listen.adminTokenFile else { return }
        admin?.use(token)
    }

    /// Accepts senders.
    func open() {
        for listener in listeners { listener.resume() }
    }

    /// Accepts no more senders.
    func closeToSenders() {
        listeners = []
        http = nil
        directHTTP = nil
    }

    func close(isolation: isolated (any Actor)?) async {
        closeToSenders()
        admin?.close()
        admin = nil
    }
}
