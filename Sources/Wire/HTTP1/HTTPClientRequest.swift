// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop

/// A request of ``HTTPClient``. Prints as `<redacted>`.
package struct HTTPClientRequest: Sendable, Redacted {
    /// The whole request: head and body.
    let bytes: [UInt8]

    /// A POST request.
    /// - Parameters:
    ///   - path: the path with its query.
    ///   - host: the value of `Host`.
    ///   - fields: further header fields. Neither names nor values may contain control characters.
    package init(
        postTo path: some Collection<UInt8>, host: String, fields: [(String, String)], body: some Collection<UInt8>
    ) {
        var bytes = Array("POST ".utf8)
        bytes += path
        bytes += " HTTP/1.1\r\nHost: \(host)\r\nContent-Length: \(body.count)\r\n".utf8
        for (name, value) in fields { bytes += "\(name): \(value)\r\n".utf8 }
        bytes += "\r\n".utf8
        bytes += body
        self.bytes = bytes
    }
}

/// A response to a request of ``HTTPClient``, without its body.
package struct HTTPClientResponse: Sendable {
    package internal(set) var status = 0
    /// The header fields, with names in lower case.
    package internal(set) var fields: [(name: String, value: String)] = []
    /// Whether the connection can carry another request.
    var keepsAlive = false
}

/// Why a request of ``HTTPClient`` has no response.
package enum HTTPClientFailure: Error, Equatable, Sendable {
    /// No connection could be opened.
    case unreachable(StreamError)
    /// No connection was free before the request's timeout: all were in use or still opening.
    case noConnection
    /// The client is closed.
    case closed
    /// The connection ended after the request was sent; the server may have processed it.
    case lost(String)
    /// No response within the timeout; the server may have processed the request.
    case timedOut
    /// The response exceeds the size limits of ``ResponseDecoder``.
    case tooLarge
}
