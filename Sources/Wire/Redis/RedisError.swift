// SPDX-License-Identifier: Apache-2.0

/// Why a command has no reply.
package enum RedisError: Error, Equatable, CustomStringConvertible {
    /// The connection failed or ended, for this reason. The server may have run the command.
    case disconnected(String)
    /// The server did not reply in time. It may have run the command.
    case timedOut
    /// The server's bytes are not a valid reply, or exceed the limits of ``ReplyReader``.
    case malformed(String)
    /// Too many commands wait for their replies; this one was not sent.
    case tooManyWaiting
    /// The server refused the command.
    case refused(String)

    /// The text for the operator.
    package var description: String {
        switch self {
        case .disconnected(let reason): "the connection to the engine ended: \(reason)"
        case .timedOut: "the engine does not answer"
        case .malformed(let problem): "the engine's answer is malformed: \(problem)"
        case .tooManyWaiting: "too many commands wait for the engine"
        case .refused(let text): "the engine answered: \(text)"
        }
    }
}
