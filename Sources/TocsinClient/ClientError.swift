// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP

/// Why a submission has no outcome.
public enum ClientError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The node could not be reached, or was lost, for as long as the client was told to try. The last reason.
    case unreachable(String)
    /// tor's SOCKS port, or another proxy, cannot be reached: where it should be, and why.
    case proxyUnreachable(Endpoint, String)
    /// The node was reached and took the submission, but said nothing of its outcome for as long as the client was told to
    /// try: it may still deliver it.
    case noResult(Duration)
    /// What listens there sent nothing after the connection was made.
    case silent(Duration)
    /// The node ended the connection for a fault that trying again does not mend.
    case refused(GoAway)
    /// The client was closed.
    case closed

    public var description: String {
        switch self {
        case .unreachable(let reason): "the node cannot be reached: \(reason)"
        case .proxyUnreachable(let endpoint, let reason): "the SOCKS proxy at \(endpoint) cannot be reached: \(reason)"
        case .noResult(let time): "no result within \(time.components.seconds) s; the node may still deliver it"
        case .silent(let time): "connected, but the node sent nothing within \(time.components.seconds) s"
        case .refused(let goAway): "the node refused: \(Self.words(goAway))"
        case .closed: "the client was closed"
        }
    }

    /// For those who watch a client that tries again.
    var reason: String {
        if case .unreachable(let reason) = self { reason } else { description }
    }

    private static func words(_ goAway: GoAway) -> String {
        let text = goAway.text.isEmpty ? "GOAWAY with code \(goAway.code.rawValue)" : goAway.text
        guard goAway.retryAfter > 0 else { return text }
        return "\(text); try again in \((UInt64(goAway.retryAfter) + 999) / 1000) s"
    }
}
