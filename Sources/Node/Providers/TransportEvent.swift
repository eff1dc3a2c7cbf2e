// SPDX-License-Identifier: Apache-2.0

import HTTP2

/// The ways in which a request can end without an answer, with their rows of the outcome table (RFC 9113 §5.4, §6.8,
/// §8.7).
package enum TransportEvent: String, CaseIterable, Sendable {
    /// There is no connection, and connecting failed: DNS, TCP, the proxy or TLS.
    case unreachable
    /// All connections stayed full until the request's timeout, or too many push servers have requests in flight.
    case noCapacity = "no-place"
    /// The server reset the stream with REFUSED_STREAM.
    case refusedStream = "refused-stream"
    /// The stream number is above the last one that a GOAWAY names, or the provider is retired.
    case goAway = "go-away"
    /// The connection closed before the request was sent.
    case lostBeforeSent = "lost-before-sent"
    /// The connection closed, or was found dead, after the request was sent.
    case connectionLost = "connection-lost"
    /// The server reset the stream with an error other than REFUSED_STREAM.
    case reset
    /// No answer within the timeout.
    case timedOut = "timed-out"
    /// The answer is larger than any documented one.
    case responseTooLarge = "response-too-large"

    /// How the node handles the event, from the outcome table.
    package var disposition: Disposition {
        switch self {
        case .unreachable: .unavailable(seconds: 30)
        case .noCapacity: .unavailable(seconds: 5)
        case .refusedStream, .goAway, .lostBeforeSent: .notProcessed
        case .reset, .responseTooLarge: .outcomeUnknown
        case .connectionLost: .connectionFailed
        // The connection pool itself sends no more requests on a connection after a timeout.
        case .timedOut: .connectionFailed.with(\.connection, .drain)
        }
    }

    /// Classifies a failed request.
    package init(_ failure: RequestFailure) {
        self =
            switch failure {
            case .notProcessed(.unreachable): .unreachable
            case .notProcessed(.timedOut): .noCapacity
            case .notProcessed(.reset): .refusedStream
            case .notProcessed(.goAway): .goAway
            case .notProcessed(.connectionLost): .lostBeforeSent
            case .outcomeUnknown(.connectionLost), .outcomeUnknown(.unreachable), .outcomeUnknown(.goAway):
                .connectionLost
            case .outcomeUnknown(.reset): .reset
            case .outcomeUnknown(.timedOut): .timedOut
            case .notProcessed(.responseTooLarge), .outcomeUnknown(.responseTooLarge): .responseTooLarge
            }
    }
}

extension RequestFailure {
    /// The result of an attempt that ended with this event.
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
