// SPDX-License-Identifier: Apache-2.0

/// Why the phone's side could not do something. The description is for a person, and contains no key, no device token and no
/// part of a notification.
public enum PhoneError: Error, Equatable, Sendable, CustomStringConvertible {
    /// A text is not a pairing token.
    case notAPairing(String)
    /// A notification cannot be opened: it is damaged, or sealed with another key.
    case cannotOpen(String)
    /// An opened notification does not have the fields of a notification.
    case notANotification(String)
    /// What was stored cannot be decoded.
    case damaged
    /// A request cannot be made, because a value in it is too long.
    case tooLong(String)
    /// The node has not accepted a request about a handle.
    case refused(HandleAnswer)
    /// The node did not answer as the protocol says.
    case badAnswer(String)

    public var description: String {
        switch self {
        case .notAPairing(let problem): "not a pairing token: \(problem)"
        case .cannotOpen(let problem): "the notification cannot be opened: \(problem)"
        case .notANotification(let problem): "the notification is not understood: \(problem)"
        case .damaged: "what was stored is damaged"
        case .tooLong(let what): "a request about a handle cannot have \(what)"
        case .refused(let answer): "the node has refused: \(answer.text) (\(answer.reason))"
        case .badAnswer(let problem): "the node's answer is not understood: \(problem)"
        }
    }
}
