// SPDX-License-Identifier: Apache-2.0

import HTTP2

/// What can happen to a request instead of an answer, and what the node makes of it (RFC 9113 §5.4, §6.8, §8.7).
package enum TransportEvent: String, CaseIterable, Sendable {
    /// There is no connection and none could be made: DNS, TCP, the proxy, TLS.
    case unreachable
    /// All connections were full until the request's time was over.
    case noPlace = "no-place"
    /// REFUSED_STREAM.
    case refusedStream = "refused-stream"
    /// Above GOAWAY's last stream.
    case goAway = "go-away"
    /// The connection ended before the request was sent.
    case lostBeforeSent = "lost-before-sent"
    /// The connection ended, or was found dead, after the request was sent.
    case connectionLost = "connection-lost"
    /// Another RST_STREAM than REFUSED_STREAM.
    case reset
    /// No answer in time.
    case timedOut = "timed-out"
    /// An answer larger than any that is documented.
    case responseTooLarge = "response-too-large"

    /// The table's row.
    package var disposition: Disposition {
        switch self {
        case .unreachable: .unavailable(seconds: 30)
        case .noPlace: .unavailable(seconds: 5)
        case .refusedStream, .goAway, .lostBeforeSent: .notProcessed
        case .reset, .responseTooLarge: .fateUnknown
        case .connectionLost: .connectionFailed
        // Upstream has left the connection by then.
        case .timedOut: .connectionFailed.with(\.connection, .left)
        }
    }

    /// Which event a failure is.
    package init(_ failure: RequestFailure) {
        self =
            switch failure {
            case .notProcessed(.unreachable): .unreachable
            case .notProcessed(.timedOut): .noPlace
            case .notProcessed(.reset): .refusedStream
            case .notProcessed(.goAway): .goAway
            case .notProcessed(.connectionLost): .lostBeforeSent
            case .fateUnknown(.connectionLost), .fateUnknown(.unreachable), .fateUnknown(.goAway): .connectionLost
            case .fateUnknown(.reset): .reset
            case .fateUnknown(.timedOut): .timedOut
            case .notProcessed(.responseTooLarge), .fateUnknown(.responseTooLarge): .responseTooLarge
            }
    }
}

extension RequestFailure {
    /// What the node makes of a request without an answer.
    var attemptResult: AttemptResult {
        let event = TransportEvent(self)
        var attemptResult = event.disposition.attemptResult(answer: event.rawValue)
        switch cause {
        case .unreachable(let reason), .connectionLost(let reason): attemptResult.detail = reason
        case .reset(let code): attemptResult.detail = "HTTP/2 error code \(code)"
        case .timedOut, .goAway, .responseTooLarge: break
        }
        return attemptResult
    }
}
