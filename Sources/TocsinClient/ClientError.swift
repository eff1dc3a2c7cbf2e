import EventLoop
import TNP

/// Why a submission has no outcome.
public enum ClientError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The node could not be reached, or was lost, for as long as the client was told to try. The last reason.
    case unreachable(String)
    /// The node ended the connection for a fault that trying again does not mend.
    case refused(GoAway)
    /// The client was closed.
    case closed

    public var description: String {
        switch self {
        case .unreachable(let reason): "the node cannot be reached: \(reason)"
        case .refused(let goAway): "the node refused: \(Self.words(goAway))"
        case .closed: "the client was closed"
        }
    }

    private static func words(_ goAway: GoAway) -> String {
        let text = goAway.text.isEmpty ? "GOAWAY with code \(goAway.code.rawValue)" : goAway.text
        guard goAway.retryAfter > 0 else { return text }
        return "\(text); it listens again in \((UInt64(goAway.retryAfter) + 999) / 1000) s"
    }
}
