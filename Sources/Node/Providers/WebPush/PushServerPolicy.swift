// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP

/// Which push servers a node delivers to: senders choose them, and must not be able to make the node send requests into
/// its own network.
package struct PushServerPolicy: Sendable, Hashable {
    /// One entry of `servers`.
    package enum Pattern: Sendable, Hashable {
        /// Every server.
        case any
        /// The server of this name.
        case name(String)
        /// All servers whose names end with this text, which begins with a dot.
        case suffix(String)

        /// Parses `any`, a name, or a name with `*.` in front; `nil` for anything else.
        package init?(_ text: String) {
            let name = text.hasPrefix("*.") ? text.dropFirst(2) : text[...]
            if text == "any" {
                self = .any
            } else if name == "onion" || PushEndpoint.isServerName(name) {
                self = text.hasPrefix("*.") ? .suffix(".\(name)") : .name(text)
            } else {
                return nil
            }
        }

        /// Whether the pattern matches onion services.
        package var includesOnions: Bool {
            switch self {
            case .any: true
            case .name(let text), .suffix(let text): text.hasSuffix(".onion")
            }
        }

        fileprivate func matches(_ host: String) -> Bool {
            switch self {
            case .any: true
            case .name(let name): host == name
            case .suffix(let suffix): host.hasSuffix(suffix)
            }
        }
    }

    /// The servers that are allowed. Their names must lead to public addresses.
    package var servers: [Pattern]
    /// The ports of these servers.
    package var ports: Set<UInt16>
    /// Servers of the operator's own, as `host:port`: their names may also lead to private addresses.
    package var localServers: Set<String>
    /// Those of the servers whose endpoints may have any query, because they need one.
    package var queryServers: [Pattern]

    package init(servers: [Pattern], ports: Set<UInt16>, localServers: Set<String>, queryServers: [Pattern] = []) {
        self.servers = servers
        self.queryServers = queryServers
        self.ports = ports
        self.localServers = localServers
    }

    /// The largest number of ``namedOrigins``: each keeps one of an app's lanes, and the servers that senders choose
    /// need the others.
    package static let maximumNamedOrigins = 48

    /// The servers whose whole name the operator has written, as ``PushEndpoint/origin``.
    package var namedOrigins: Set<String> {
        let named = servers.flatMap { pattern -> [String] in
            guard case .name(let name) = pattern else { return [] }
            let origins = ports.map { PushEndpoint.origin(name, $0) }
            return name.hasSuffix(".onion")
                ? origins + (ports + [PushEndpoint.plainPort]).map { PushEndpoint.origin(name, $0, isSecure: false) }
                : origins
        }
        let local = localServers.compactMap { server -> String? in
            guard case .tcp(let host, let port)? = Endpoint(server) else { return nil }
            return PushEndpoint.origin(host, port)
        }
        return Set(named + local)
    }

    /// Whether the server may get the endpoint's query, if there is one.
    package func allowsQuery(of endpoint: PushEndpoint) -> Bool {
        !endpoint.hasUnusualQuery || queryServers.contains { $0.matches(endpoint.host) }
    }

    /// The addresses that may be dialled for an endpoint; `nil` if the node does not deliver to its server.
    package func addresses(for endpoint: PushEndpoint) -> AddressPolicy? {
        if localServers.contains("\(endpoint.host):\(endpoint.port)") { return .any }
        let isPort = ports.contains(endpoint.port) || (endpoint.isOnion && endpoint.port == PushEndpoint.plainPort)
        guard isPort, servers.contains(where: { $0.matches(endpoint.host) }) else { return nil }
        return servers.contains(.name(endpoint.host)) ? .publicOnly : .foreign
    }
}
