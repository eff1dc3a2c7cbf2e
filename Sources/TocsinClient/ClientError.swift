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
        case .refused(let goAway):
            "the node refused: \(goAway.text.isEmpty ? "GOAWAY with code \(goAway.code.rawValue)" : goAway.text)"
        case .closed: "the client was closed"
        }
    }
}
