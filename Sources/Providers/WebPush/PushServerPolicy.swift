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
            } else if name == "onion" || (try? PushEndpoint(Array("https://\(name)/".utf8)[...]))?.host == String(name)
            {
                self = text.hasPrefix("*.") ? .suffix(".\(name)") : .name(text)
            } else {
                return nil
            }
        }

        /// Whether onion services are among the servers.
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

    /// - Parameters: as the properties of the same names.
    package init(servers: [Pattern], ports: Set<UInt16>, localServers: Set<String>) {
        self.servers = servers
        self.ports = ports
        self.localServers = localServers
    }

    /// The largest number of ``namedOrigins``: each takes a lane, and servers without a name need some, too.
    package static let maximumNamedOrigins = 48

    /// The servers whose whole name the operator has written, as ``PushEndpoint/origin``.
    package var namedOrigins: Set<String> {
        let names = servers.flatMap { pattern -> [String] in
            guard case .name(let name) = pattern else { return [] }
            let urls = ports.map { "https://\(name):\($0)/" }
            return name.hasSuffix(".onion")
                ? urls + (ports + [PushEndpoint.plainPort]).map { "http://\(name):\($0)/" } : urls
        }
        let urls = names + localServers.map { "https://\($0)/" }
        return Set(urls.compactMap { (try? PushEndpoint(Array($0.utf8)[...]))?.origin })
    }

    /// The addresses that may be dialled for an endpoint; `nil` if the node does not deliver to its server.
    package func addresses(for endpoint: PushEndpoint) -> AddressPolicy? {
        if localServers.contains("\(endpoint.host):\(endpoint.port)") { return .any }
        let isPort = ports.contains(endpoint.port) || (endpoint.isOnion && endpoint.port == PushEndpoint.plainPort)
        return isPort && servers.contains { $0.matches(endpoint.host) } ? .publicOnly : nil
    }
}
