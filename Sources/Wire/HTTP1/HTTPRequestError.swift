// SPDX-License-Identifier: Apache-2.0

/// Why a request stream is rejected; the connection then closes.
package enum HTTPRequestError: Error, Equatable, Sendable {
    /// Not valid HTTP/1.1, or ambiguous.
    case malformed
    /// The request line, fields and trailers are too long together, or there are too many fields.
    case headTooLarge
    /// The request target is too long.
    case targetTooLong
    /// The request body is too large.
    case bodyTooLarge
    /// A request was not complete in time.
    case timeout
    /// The server stopped accepting requests while this request was incomplete.
    case draining
    /// An expectation other than `100-continue`.
    case expectation
    /// A transfer coding other than `chunked`.
    case transferCoding
    /// Not HTTP/1.x.
    case version
    /// The stream starts with a byte that cannot start an HTTP request.
    case notHTTP(firstByte: UInt8)

    /// The HTTP status of the response.
    package var status: Int { answer.status }

    /// A sentence for people, which contains nothing of the request.
    package var text: String { answer.text }

    private var answer: (status: Int, text: String) {
        switch self {
        case .malformed: (400, "The request is not valid HTTP/1.1.")
        case .headTooLarge: (431, "The request has too many header fields, or they are too long.")
        case .targetTooLong: (414, "The request target is too long.")
        case .bodyTooLarge: (413, "The request body is too large.")
        case .timeout: (408, "The request was not complete in time.")
        case .draining: (503, "The server accepts no more requests on this connection; retry later.")
        case .expectation: (417, "The only supported expectation is 100-continue.")
        case .transferCoding: (501, "The transfer coding is not supported; use chunked or Content-Length.")
        case .version: (505, "Only HTTP/1.1 and HTTP/1.0 are supported.")
        case .notHTTP: (400, "Not an HTTP request; only unencrypted HTTP/1.1 is supported.")
        }
    }
}
