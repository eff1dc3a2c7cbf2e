// SPDX-License-Identifier: Apache-2.0

import Glibc

/// An address to listen on or connect to: a TCP host and port, or a unix socket.
public enum Endpoint: Hashable, Sendable, CustomStringConvertible {
    /// A host name or address (IPv6 without brackets) and a port.
    case tcp(host: String, port: UInt16)
    /// The path of a unix socket, at most 107 bytes.
    case unix(path: String)

    /// Maximum length of a unix socket path, in bytes.
    package static let maximumUnixPathLength = 107

    /// Parses `host:port`, `[v6]:port` or `unix:path`; `nil` for anything else.
    public init?(_ text: String) {
        if text.hasPrefix("unix:") {
            let path = String(text.dropFirst(5))
            guard !path.isEmpty, path.utf8.count <= Self.maximumUnixPathLength else { return nil }
            self = .unix(path: path)
            return
        }
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
            return nil
        }
        var host = text[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            return nil
        }
        guard !host.isEmpty, !host.contains(where: { $0.isWhitespace || $0 == "/" }) else { return nil }
        self = .tcp(host: String(host), port: port)
    }

    /// The endpoint as text, in the form that the initializer parses.
    public var description: String {
        switch self {
        case .tcp(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        case .unix(let path): "unix:\(path)"
        }
    }

    /// Whether the endpoint is reachable only from this machine: a unix socket, 127.0.0.0/8, ::1 or `localhost`.
    package var isLocal: Bool {
        switch self {
        case .unix: true
        case .tcp("localhost", _), .tcp("::1", _): true
        case .tcp(let host, let port):
            if case .ipv4(let address)? = SocketAddress(numericHost: host, port: port) {
                UInt32(bigEndian: address.sin_addr.s_addr) >> 24 == 127
            } else {
                false
            }
        }
    }
}

/// A socket address in the kernel's representation.
enum SocketAddress {
    case ipv4(sockaddr_in)
    case ipv6(sockaddr_in6)
    case unix(sockaddr_un)

    /// The address of a numeric host; `nil` if `host` is a name.
    init?(numericHost host: String, port: UInt16) {
        var v4 = sockaddr_in()
        if inet_pton(AF_INET, host, &v4.sin_addr) == 1 {
            v4.sin_family = sa_family_t(AF_INET)
            v4.sin_port = port.bigEndian
            self = .ipv4(v4)
            return
        }
        var v6 = sockaddr_in6()
        if inet_pton(AF_INET6, host, &v6.sin6_addr) == 1 {
            v6.sin6_family = sa_family_t(AF_INET6)
            v6.sin6_port = port.bigEndian
            self = .ipv6(v6)
            return
        }
        return nil
    }

    init?(unixPath path: String) {
        guard path.utf8.count <= Endpoint.maximumUnixPathLength else { return nil }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        self = .unix(address)
    }

    func withPointer<Result>(_ body: (UnsafeMutablePointer<sockaddr>, socklen_t) -> Result) -> Result {
        func lend<Address>(_ address: Address) -> Result {
            var copy = address
            return withUnsafeMutableBytes(of: &copy) {
                body($0.assumingMemoryBound(to: sockaddr.self).baseAddress!, socklen_t($0.count))
            }
        }
        return switch self {
        case .ipv4(let address): lend(address)
        case .ipv6(let address): lend(address)
        case .unix(let address): lend(address)
        }
    }
}
