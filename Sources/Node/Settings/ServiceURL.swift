// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// The URL of a push service: `https://host[:port][/path]`
package struct ServiceURL: Hashable, Sendable {
    /// The host name or address.
    package let host: String
    /// The port; 443 unless the URL names another one.
    package let port: UInt16
    /// The path with its leading slash, or an empty string.
    package let path: String

    /// Parses a URL; `nil` if it does not have this form.
    package init?(_ text: String) {
        guard text.hasPrefix("https://") else { return nil }
        let rest = text.dropFirst("https://".count)
        let slash = rest.firstIndex(of: "/") ?? rest.endIndex
        let authority = String(rest[..<slash])
        path = String(rest[slash...])
        guard case .tcp(let host, let port)? = Endpoint(authority) ?? Endpoint(authority + ":443") else { return nil }
        self.host = host
        self.port = port
    }

    /// The URL `https://host`.
    init(host: String) { (self.host, port, path) = (host, 443, "") }

    /// The address to connect to.
    package var endpoint: Endpoint { .tcp(host: host, port: port) }
    /// The `:authority` of requests.
    package var authority: String { port == 443 ? host : endpoint.description }
}
