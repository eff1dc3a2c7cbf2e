// SPDX-License-Identifier: Apache-2.0

/// What is wrong with a stream of requests; it ends the connection.
package enum HTTPRequestError: Error, Equatable, Sendable {
    /// Not the grammar of HTTP/1.1, or more than one reading of it.
    case malformed
    /// The request line, the fields and the trailers together, or the fields by their number.
    case headTooLarge
    case targetTooLong
    case bodyTooLarge
    /// A request was begun and not ended.
    case timeout
    /// A request was begun, and this side takes no more.
    case leaving
    /// An expectation other than `100-continue`.
    case expectation
    /// A transfer coding other than `chunked`.
    case transferCoding
    /// Not HTTP/1.x.
    case version
    /// The stream begins with what no HTTP request begins with.
    case notHTTP(firstByte: UInt8)

    /// The status to answer with.
    package var status: Int {
        switch self {
        case .malformed, .notHTTP: 400
        case .headTooLarge: 431
        case .targetTooLong: 414
        case .bodyTooLarge: 413
        case .timeout: 408
        case .leaving: 503
        case .expectation: 417
        case .transferCoding: 501
        case .version: 505
        }
    }

    /// One sentence for a person, with nothing of what came.
    package var text: String {
        switch self {
        case .malformed: "The request is not valid HTTP/1.1."
        case .headTooLarge: "The request's header fields are too many or too long."
        case .targetTooLong: "The request's address is too long."
        case .bodyTooLarge: "The request's body is too large."
        case .timeout: "The request did not come to its end in time."
        case .leaving: "The server takes no more requests here; come again in a while."
        case .expectation: "The request expects something other than 100-continue."
        case .transferCoding: "The request's transfer coding is not known here; send it in chunks or with its length."
        case .version: "Only HTTP/1.1 and HTTP/1.0 are spoken here."
        case .notHTTP: "This is no HTTP request; only plain HTTP/1.1 is spoken here."
        }
    }
}
