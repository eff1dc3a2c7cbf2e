// SPDX-License-Identifier: Apache-2.0

/// What a person sees and hears of a notification, and what the app does with it.
package struct Reaction: Sendable, Equatable {
    /// Text on the screen.
    package struct Alert: Sendable, Equatable {
        package var title: String?
        package var text: String

        /// - Parameters: as the properties of the same names.
        package init(title: String? = nil, text: String) {
            self.title = title
            self.text = text
        }
    }

    /// What appears when it comes; nil: nothing.
    package var alert: Alert?
    /// Whether it is heard.
    package var hasSound: Bool
    /// Whether the app looks at it only once the person has tapped on the alert, as the simulator's person always does.
    package var needsTap: Bool
    package var effect: Effect

    /// What the app does with the envelope.
    package enum Effect: Sendable, Equatable {
        /// The pairing is confirmed.
        case paired
        /// A confirmation that the app does not need any more.
        case alreadyPaired
        /// Settings and notifications are gone.
        case erased
        /// It stands in the app's list.
        case stored(Phone.Shown)
        /// It stands there already.
        case duplicate
        /// It is shown, and kept nowhere.
        case shown(Phone.Shown)
        /// It is shown in the place of an earlier one with the same id.
        case replaced(Phone.Shown)
        /// The app cannot open it.
        case refused(Phone.Failure)
        /// The app cannot open it, and ends.
        case crashed(Phone.Failure)
        /// The app never looks at it.
        case unopened(Obstacle)
    }

    /// Why an app does not look at an envelope.
    package enum Obstacle: Sendable, Equatable {
        /// There is none.
        case noEnvelope
        /// The app looks at what the person taps on, and there is no alert.
        case noAlert
        /// Its extension is not asked: `mutable-content` is not set.
        case notMutable
        /// Android shows a notification block by itself and tells the app nothing.
        case notDataOnly
        /// The app shows no notifications while it is in front.
        case inFront
    }

    /// What the app shows of the content; nil where it shows nothing.
    package var shown: Phone.Shown? {
        switch effect {
        case .stored(let shown), .shown(let shown), .replaced(let shown): shown
        case .paired, .alreadyPaired, .erased, .duplicate, .refused, .crashed, .unopened: nil
        }
    }
}

extension Reaction: CustomStringConvertible {
    /// What is on the screen, a note where it is heard, and after the arrow what the app shows or does.
    package var description: String {
        let words =
            alert.map { alert in "\"\(alert.title.map { "\($0): " } ?? "")\(alert.text)\"" } ?? "nothing on the screen"
        let content = shown.map { "[\($0.type)] \($0.title) – \($0.message), " } ?? ""
        return "\(words)\(hasSound ? " ♪" : "") → \(content)\(effect)"
    }
}

extension Reaction.Effect: CustomStringConvertible {
    /// In words; without what was in the envelope.
    package var description: String {
        switch self {
        case .paired: "paired"
        case .alreadyPaired: "ignored: paired already"
        case .erased: "erased"
        case .stored: "stored"
        case .duplicate: "ignored: a duplicate"
        case .shown: "shown"
        case .replaced: "shown in the place of an earlier one"
        case .refused(let failure): "cannot open it: \(failure)"
        case .crashed(let failure): "the app crashes: \(failure)"
        case .unopened(let obstacle): "not opened: \(obstacle)"
        }
    }
}

extension Reaction.Obstacle: CustomStringConvertible {
    package var description: String {
        switch self {
        case .noEnvelope: "there is nothing under encrypted"
        case .noAlert: "there is no alert to tap on"
        case .notMutable: "mutable-content is not set"
        case .notDataOnly: "it has a notification block, and the app is told of data alone"
        case .inFront: "the app is in front"
        }
    }
}
