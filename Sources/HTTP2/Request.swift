// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// A request with all of its body.
package struct Request: Sendable, Redacted {
    /// Pseudo-header fields first (RFC 9113 §8.3).
    package var headers: HeaderBlock
    package var body: [UInt8]

    /// - Parameters: as the properties of the same names.
    package init(headers: HeaderBlock, body: [UInt8]) {
        self.headers = headers
        self.body = body
    }
}

/// An answer with all of its body.
package struct Response: Sendable, Redacted {
    /// The HTTP status code.
    package var status: Int
    /// Without the pseudo-header fields.
    package var headers: HeaderBlock
    package var body: [UInt8]

    /// - Parameters: as the properties of the same names.
    package init(status: Int, headers: HeaderBlock = HeaderBlock(), body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }
}

/// Why a request has no answer, and what that says of the request.
package enum RequestFailure: Error, Equatable, Sendable {
    /// The server has not seen it, or says that it did nothing with it: it may be sent again without harm.
    case notProcessed(Cause)
    /// It went out and no answer came: nobody knows whether it was processed.
    case fateUnknown(Cause)

    /// What happened.
    package enum Cause: Equatable, Sendable {
        /// There is no connection and none could be made, for this reason.
        case unreachable(String)
        /// The connection ended, for this reason.
        case connectionLost(String)
        /// No answer within the request's time.
        case timedOut
        /// The server reset the stream with this code (RFC 9113 §7).
        case reset(code: UInt32)
        /// The server goes away and has not looked at this stream.
        case goAway
        /// The answer is larger than is taken.
        case responseTooLarge
    }

    /// What happened.
    package var cause: Cause {
        switch self {
        case .notProcessed(let cause), .fateUnknown(let cause): cause
        }
    }
}
