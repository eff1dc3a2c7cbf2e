// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// A request with its complete body.
package struct Request: Sendable, Redacted {
    /// The header fields, pseudo-header fields first (RFC 9113 §8.3).
    package var headers: HeaderBlock
    package var body: [UInt8]

    package init(headers: HeaderBlock, body: [UInt8]) {
        self.headers = headers
        self.body = body
    }
}

/// A response with its complete body.
package struct Response: Sendable, Redacted {
    /// The HTTP status code.
    package var status: Int
    /// The header fields without pseudo-header fields.
    package var headers: HeaderBlock
    package var body: [UInt8]

    package init(status: Int, headers: HeaderBlock = HeaderBlock(), body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// Makes this an empty response; keeps the memory of its buffers.
    mutating func removeAll() {
        status = 0
        headers.removeAll()
        if !body.isEmpty { body.removeAll(keepingCapacity: true) }
    }
}

/// Why a request has no response, and whether it may have been processed.
package enum RequestFailure: Error, Equatable, Sendable {
    /// The server has not received the request, or reports that it did not process it: it is safe to retry.
    case notProcessed(Cause)
    /// The request was sent but not answered: the server may have processed it.
    case outcomeUnknown(Cause)

    /// The cause of a failure.
    package enum Cause: Equatable, Sendable {
        /// No connection is open and none could be opened, for this reason.
        case unreachable(String)
        /// The connection ended, for this reason.
        case connectionLost(String)
        /// No response before the request's deadline.
        case timedOut
        /// The server reset the stream with this code (RFC 9113 §7).
        case reset(code: UInt32)
        /// The connection is closing or the pool was retired, and the server did not process the request.
        case goAway
        /// The response exceeds the size limit.
        case responseTooLarge
    }

    /// The cause, in either case.
    package var cause: Cause {
        switch self {
        case .notProcessed(let cause), .outcomeUnknown(let cause): cause
        }
    }
}
