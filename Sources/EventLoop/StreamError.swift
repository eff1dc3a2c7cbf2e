// SPDX-License-Identifier: Apache-2.0

import CLibevent
import COpenSSL
import Glibc

/// Why a stream could not be had or came to its end.
package enum StreamError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The other side closed, or nothing more can come.
    case closed
    /// The operating system's word, for instance "Connection refused".
    case system(String)
    /// TLS failed: certificate, host name, version, or no common application protocol.
    case tls(String)
    /// The name could not be resolved.
    case unknownHost(String)
    /// The proxy's word.
    case proxy(String)
    /// The proxy itself cannot be reached: where it should be, and the operating system's word.
    case proxyUnreachable(Endpoint, String)
    /// It took longer than allowed.
    case timedOut
    /// More came than is allowed here.
    case tooLong

    package var description: String {
        switch self {
        case .closed: "the connection was closed"
        case .system(let reason): reason
        case .tls(let reason): "TLS: \(reason)"
        case .unknownHost(let reason): "the name could not be resolved: \(reason)"
        case .proxy(let reason): "the proxy says: \(reason)"
        case .proxyUnreachable(let endpoint, let reason): "the proxy at \(endpoint) cannot be reached: \(reason)"
        case .timedOut: "it took too long"
        case .tooLong: "the other side sent more than is allowed"
        }
    }

    static func lastSystemError() -> StreamError { .system(String(cString: strerror(errno))) }

    /// What went wrong on this bufferevent, after an event that says something did.
    static func ofFailed(_ bufferevent: OpaquePointer) -> StreamError {
        let systemError = errno
        if let ssl = bufferevent_openssl_get_ssl(bufferevent) {
            let verification = SSL_get_verify_result(ssl)
            let code = bufferevent_get_openssl_error(bufferevent)
            while bufferevent_get_openssl_error(bufferevent) != 0 {}
            if Int(verification) != Int(X509_V_OK), SSL_is_server(ssl) == 0 {
                return .tls(String(cString: X509_verify_cert_error_string(verification)))
            }
            if code != 0, let reason = ERR_reason_error_string(code) { return .tls(String(cString: reason)) }
            if SSL_is_init_finished(ssl) == 0 { return .tls("the other side ended the handshake") }
        }
        return systemError == 0 ? .closed : .system(String(cString: strerror(systemError)))
    }
}
