// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Why a stream could not be opened, or why it ended.
package enum StreamError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The stream was closed.
    case closed
    /// The operating system's error text, for instance "Connection refused".
    case system(String)
    /// TLS failed: certificate, host name, version, or no common application protocol.
    case tls(String)
    /// The host name leads only to addresses that the ``AddressPolicy`` forbids.
    case forbiddenAddress
    /// The host name could not be resolved.
    case unknownHost(String)
    /// The proxy refused, or does not speak its protocol.
    case proxy(String)
    /// The proxy itself cannot be reached: its endpoint, and the reason.
    case proxyUnreachable(Endpoint, String)
    /// A deadline expired.
    case timedOut
    /// The peer sent more than the limit.
    case tooLong

    /// The message for logs and operators.
    package var description: String {
        switch self {
        case .closed: "the connection was closed"
        case .system(let reason): reason
        case .tls(let reason): "TLS: \(reason)"
        case .forbiddenAddress: "the host name leads to an address that is not public"
        case .unknownHost(let reason): "host name lookup failed: \(reason)"
        case .proxy(let reason): "proxy error: \(reason)"
        case .proxyUnreachable(let endpoint, let reason): "the proxy at \(endpoint) cannot be reached: \(reason)"
        case .timedOut: "timed out"
        case .tooLong: "the peer sent more data than allowed"
        }
    }

    static func lastSystemError() -> StreamError { .system(String(cString: strerror(errno))) }
}
