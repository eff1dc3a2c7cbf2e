// SPDX-License-Identifier: Apache-2.0

import TNP

/// The state of a phone as notifications arrive: what its app has stored and shown. The simulated user taps every
/// alert.
package struct PhoneState: Sendable {
    /// Whether the app is in the background or foreground when a notification arrives.
    package enum AppState: Sendable, CaseIterable {
        case background, foreground
    }

    package let phone: Phone
    /// Whether a SETUP_CONFIRMATION has arrived. Bisq Connect and self-built apps do not use it.
    package private(set) var isPaired = false
    /// Whether an ERASE has arrived: the key is deleted, and the app needs a new pairing token.
    package private(set) var isErased = false
    /// The app's list, oldest first.
    private var messages: [Phone.Message] = []
    /// Ids of the notifications that Bisq Connect has shown on Android, oldest first.
    private var shownIDs: [String] = []

    /// Maximum number of stored notifications; beyond it, the oldest is dropped.
    package static let maximumStored = 1000

    /// Creates a phone that has received nothing yet.
    package init(_ phone: Phone) { self.phone = phone }

    /// The content of the app's list, oldest first.
    package var stored: [Phone.DisplayedContent] { messages.map(\.displayedContent) }

    /// Processes an arriving notification.
    package mutating func receive(
        _ notification: ReceivedNotification, while presence: AppState = .background
    ) -> Reaction {
        switch (phone.app.format, phone.magic) {
        case (.pipe, .iOS), (.pipe, .iOSDev): receiveOnBisqIOS(notification, presence)
        case (.pipe, .android): receiveOnBisqAndroid(notification, presence)
        case (.sealed, .iOS), (.sealed, .iOSDev): receiveOnConnectIOS(notification, presence)
        case (.sealed, .android): receiveOnConnectAndroid(notification, presence)
        case (_, .web): receiveByDistributor(notification)
        }
    }

    // MARK: Bisq 1 and Haveno

    /// The app has no extension and does not use the background time that `content-available` grants: it processes
    /// notifications that arrive while it is in the foreground, and those that the user taps.
    private mutating func receiveOnBisqIOS(_ notification: ReceivedNotification, _ presence: AppState) -> Reaction {
        if presence == .foreground {
            return Reaction(hasSound: false, needsTap: false, effect: process(notification.encrypted))
        }
        guard let alert = notification.banner.map(Reaction.Alert.init) else {
            return Reaction(hasSound: false, needsTap: false, effect: .unopened(.noAlert))
        }
        return Reaction(
            alert: alert, hasSound: notification.hasSound, needsTap: true, effect: process(notification.encrypted))
    }

    private mutating func receiveOnBisqAndroid(
        _ notification: ReceivedNotification, _ presence: AppState
    ) -> Reaction {
        if presence == .background, let banner = notification.banner {
            return Reaction(
                alert: Reaction.Alert(banner), hasSound: notification.hasSound, needsTap: true,
                effect: process(notification.encrypted))
        }
        let effect = process(notification.encrypted)
        // For a data message the app builds a notification itself, here from the content. It ignores the key `sound`:
        // the notification channel defines the sound.
        guard notification.banner == nil, case .stored(let shown) = effect else {
            return Reaction(hasSound: false, needsTap: false, effect: effect)
        }
        return Reaction(alert: Reaction.Alert(shown), hasSound: true, needsTap: false, effect: effect)
    }

    /// Opens an envelope. Notifications that precede the confirmation are stored as well: the app has its key from the
    /// start.
    private mutating func process(_ encrypted: String) -> Reaction.Effect {
        guard !encrypted.isEmpty else { return .unopened(.noEnvelope) }
        guard !isErased else { return .cannotOpen(.noKey) }
        let message: Phone.Message
        do throws(Phone.Failure) {
            message = try phone.read(encrypted)
        } catch {
            return crashes(by: error) ? .crashed(error) : .cannotOpen(error)
        }
        switch message.type {
        case "SETUP_CONFIRMATION":
            guard !isPaired else { return .alreadyPaired }
            isPaired = true
            return .paired
        case "ERASE":
            isPaired = false
            isErased = true
            messages.removeAll()
            return .erased
        default:
            // Only the iOS app drops duplicates; the Android app stores them.
            if phone.magic.isApple, messages.contains(message) { return .duplicate }
            if messages.count == Self.maximumStored { messages.removeFirst() }
            messages.append(message)
            return .stored(message.displayedContent)
        }
    }

    /// The iOS app crashes on text that is not Base64 and on ciphertext that it cannot decrypt.
    private func crashes(by failure: Phone.Failure) -> Bool {
        phone.magic.isApple && [.notBase64, .cannotDecrypt].contains(failure)
    }

    // MARK: Web Push

    /// A distributor of UnifiedPush wakes the app, which shows what it has decrypted.
    private mutating func receiveByDistributor(_ notification: ReceivedNotification) -> Reaction {
        let effect = process(notification.encrypted)
        guard case .stored(let shown) = effect else {
            return Reaction(hasSound: false, needsTap: false, effect: effect)
        }
        return Reaction(alert: Reaction.Alert(shown), hasSound: true, needsTap: false, effect: effect)
    }

    // MARK: Bisq Connect and self-built apps

    /// The app's extension replaces the alert with the content before it is shown.
    private func receiveOnConnectIOS(_ notification: ReceivedNotification, _ presence: AppState) -> Reaction {
        guard let banner = notification.banner else {
            return Reaction(hasSound: false, needsTap: false, effect: .unopened(.noAlert))
        }
        guard presence == .background else {
            return Reaction(hasSound: false, needsTap: false, effect: .unopened(.inForeground))
        }
        var reaction = Reaction(
            alert: Reaction.Alert(banner), hasSound: notification.hasSound, needsTap: false,
            effect: .unopened(.notMutable))
        guard notification.isMutableContent else { return reaction }
        reaction.alert = Reaction.Alert(title: "Bisq", text: "New notification")
        guard !notification.encrypted.isEmpty else {
            reaction.effect = .unopened(.noEnvelope)
            return reaction
        }
        do throws(Phone.Failure) {
            let shown = try phone.open(notification.encrypted)
            reaction.alert = Reaction.Alert(shown)
            reaction.effect = .shown(shown)
        } catch {
            reaction.effect = .cannotOpen(error)
        }
        return reaction
    }

    private mutating func receiveOnConnectAndroid(
        _ notification: ReceivedNotification, _ presence: AppState
    ) -> Reaction {
        if presence == .background, let banner = notification.banner {
            return Reaction(
                alert: Reaction.Alert(banner), hasSound: notification.hasSound, needsTap: false,
                effect: .unopened(.notDataOnly))
        }
        var reaction = Reaction(hasSound: false, needsTap: false, effect: .unopened(.noEnvelope))
        guard !notification.encrypted.isEmpty else { return reaction }
        do throws(Phone.Failure) {
            let message = try phone.read(notification.encrypted)
            reaction.alert = Reaction.Alert(message.displayedContent)
            // The notification channel defines the sound.
            reaction.hasSound = true
            reaction.effect =
                replaces(message.id ?? "") ? .replaced(message.displayedContent) : .shown(message.displayedContent)
        } catch {
            reaction.effect = .cannotOpen(error)
        }
        return reaction
    }

    /// Returns whether a notification with this id was already shown, and records the id.
    private mutating func replaces(_ id: String) -> Bool {
        if shownIDs.contains(id) { return true }
        if shownIDs.count == Self.maximumStored { shownIDs.removeFirst() }
        shownIDs.append(id)
        return false
    }
}

extension Reaction.Alert {
    fileprivate init(_ banner: ReceivedNotification.Banner) { self.init(title: banner.title, text: banner.text) }

    fileprivate init(_ shown: Phone.DisplayedContent) { self.init(title: shown.title, text: shown.message) }
}
