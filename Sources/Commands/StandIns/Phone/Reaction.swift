// SPDX-License-Identifier: Apache-2.0

/// What the user sees and hears of a notification, and what the app does with it.
package struct Reaction: Sendable, Equatable {
    /// An alert on the screen.
    package struct Alert: Sendable, Equatable {
        package var title: String?
        /// The body.
        package var text: String

        package init(title: String? = nil, text: String) {
            self.title = title
            self.text = text
        }
    }

    /// The alert shown on arrival; `nil` if nothing is shown.
    package var alert: Alert?
    /// Whether the phone plays a sound.
    package var hasSound: Bool
    /// Whether the app processes the notification only after a tap on the alert; the simulated user always taps.
    package var needsTap: Bool
    package var effect: Effect

    /// What the app does with the envelope.
    package enum Effect: Sendable, Equatable {
        /// The app confirms the pairing.
        case paired
        /// The app ignores the confirmation: it is already paired.
        case alreadyPaired
        /// The app deletes its settings and notifications.
        case erased
        /// The app adds the content to its list.
        case stored(Phone.DisplayedContent)
        /// The app ignores content that is already in its list.
        case duplicate
        /// The app shows the content and does not store it.
        case shown(Phone.DisplayedContent)
        /// The app shows the content in place of an earlier notification with the same id.
        case replaced(Phone.DisplayedContent)
        /// The app cannot open the envelope.
        case cannotOpen(Phone.Failure)
        /// The app cannot open the envelope and crashes.
        case crashed(Phone.Failure)
        /// The app does not process the envelope.
        case unopened(NotOpenedReason)
    }

    /// Why an app does not process an envelope.
    package enum NotOpenedReason: Sendable, Equatable {
        /// The notification has no envelope.
        case noEnvelope
        /// The app processes tapped alerts only, and there is no alert.
        case noAlert
        /// iOS does not call the app's extension: `mutable-content` is not set.
        case notMutable
        /// Android shows a notification block itself and does not call the app.
        case notDataOnly
        /// The app shows no notifications while it is in the foreground.
        case inForeground
    }

    /// The content that the app shows; `nil` if it shows none.
    package var shown: Phone.DisplayedContent? {
        switch effect {
        case .stored(let shown), .shown(let shown), .replaced(let shown): shown
        case .paired, .alreadyPaired, .erased, .duplicate, .cannotOpen, .crashed, .unopened: nil
        }
    }
}

extension Reaction: CustomStringConvertible {
    /// The alert on the screen, ♪ if there is a sound, and after → what the app shows or does.
    package var description: String {
        let words =
            alert.map { alert in "\"\(alert.title.map { "\($0): " } ?? "")\(alert.text)\"" } ?? "nothing on the screen"
        let content = shown.map { "[\($0.type)] \($0.title) – \($0.message), " } ?? ""
        return "\(words)\(hasSound ? " ♪" : "") → \(content)\(effect)"
    }
}

extension Reaction.Effect: CustomStringConvertible {
    /// A description without the content of the envelope.
    package var description: String {
        switch self {
        case .paired: "paired"
        case .alreadyPaired: "ignored: already paired"
        case .erased: "erased"
        case .stored: "stored"
        case .duplicate: "ignored: duplicate"
        case .shown: "shown"
        case .replaced: "shown, replacing an earlier one"
        case .cannotOpen(let failure): "cannot open it: \(failure)"
        case .crashed(let failure): "the app crashes: \(failure)"
        case .unopened(let obstacle): "not opened: \(obstacle)"
        }
    }
}

extension Reaction.NotOpenedReason: CustomStringConvertible {
    package var description: String {
        switch self {
        case .noEnvelope: "the field encrypted is missing or empty"
        case .noAlert: "there is no alert to tap"
        case .notMutable: "mutable-content is not set"
        case .notDataOnly: "it has a notification block, and the app receives data messages only"
        case .inForeground: "the app is in the foreground"
        }
    }
}
