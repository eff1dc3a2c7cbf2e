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
    package var status: Int {
        switch self {
        case .malformed, .notHTTP: 400
        case .headTooLarge: 431
        case .targetTooLong: 414
        case .bodyTooLarge: 413
        case .timeout: 408
        case .draining: 503
        case .expectation: 417
        case .transferCoding: 501
        case .version: 505
        }
    }

    /// A sentence for people, which contains nothing of the request.
    package var text: String {
        switch self {
        case .malformed: "The request is not valid HTTP/1.1."
        case .headTooLarge: "The request has too many header fields, or they are too long."
        case .targetTooLong: "The request target is too long."
        case .bodyTooLarge: "The request body is too large."
        case .timeout: "The request was not complete in time."
        case .draining: "The server accepts no more requests on this connection; retry later."
        case .expectation: "The only supported expectation is 100-continue."
        case .transferCoding: "The transfer coding is not supported; use chunked or Content-Length."
        case .version: "Only HTTP/1.1 and HTTP/1.0 are supported."
        case .notHTTP: "Not an HTTP request; only unencrypted HTTP/1.1 is supported."
        }
    }
}
