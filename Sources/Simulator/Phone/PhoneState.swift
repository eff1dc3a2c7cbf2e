// SPDX-License-Identifier: Apache-2.0

import TNP

/// A phone as notifications come: what is on its screen, and what its app has kept. The person at it taps on every
/// alert.
package struct PhoneState: Sendable {
    /// Where the app is when a notification comes.
    package enum Presence: Sendable, CaseIterable {
        case background, foreground
    }

    package let phone: Phone
    /// Whether a SETUP_CONFIRMATION has come. Bisq Connect and apps of one's own know no such thing.
    package private(set) var isPaired = false
    /// Whether an ERASE has come: the key is gone, and only a new pairing token makes a phone again.
    package private(set) var isErased = false
    /// The app's list, oldest first.
    private var messages: [Phone.Message] = []
    /// Ids of what Bisq Connect has put on Android's screen, oldest first.
    private var shownIDs: [String] = []

    /// The most notifications that are kept; then the oldest is forgotten.
    package static let mostKept = 1000

    /// A phone to which nothing has come yet.
    package init(_ phone: Phone) { self.phone = phone }

    /// What stands in the app's list, oldest first.
    package var stored: [Phone.Shown] { messages.map(\.shown) }

    /// A notification comes.
    package mutating func receive(
        _ notification: ReceivedNotification, while presence: Presence = .background
    ) -> Reaction {
        switch (phone.app.format, phone.magic) {
        case (.pipe, .iOS), (.pipe, .iOSDev): receiveOnBisqIOS(notification, presence)
        case (.pipe, .android): receiveOnBisqAndroid(notification, presence)
        case (.sealed, .iOS), (.sealed, .iOSDev): receiveOnConnectIOS(notification, presence)
        case (.sealed, .android): receiveOnConnectAndroid(notification, presence)
        }
    }

    // MARK: Bisq 1 and Haveno

    /// The app has no extension and does not use the time in the background that `content-available` would give it: it
    /// sees what comes while it is in front, and what is tapped on.
    private mutating func receiveOnBisqIOS(_ notification: ReceivedNotification, _ presence: Presence) -> Reaction {
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
        _ notification: ReceivedNotification, _ presence: Presence
    ) -> Reaction {
        if presence == .background, let banner = notification.banner {
            return Reaction(
                alert: Reaction.Alert(banner), hasSound: notification.hasSound, needsTap: true,
                effect: process(notification.encrypted))
        }
        let effect = process(notification.encrypted)
        // Of data alone the app makes a notification itself: here, of what it has to say. It does not read the key
        // `sound`, so that one rings as its channel does.
        guard notification.banner == nil, case .stored(let shown) = effect else {
            return Reaction(hasSound: false, needsTap: false, effect: effect)
        }
        return Reaction(alert: Reaction.Alert(shown), hasSound: true, needsTap: false, effect: effect)
    }

    /// What comes before the confirmation is opened and kept like anything else: the app has its key from the start.
    private mutating func process(_ encrypted: String) -> Reaction.Effect {
        guard !encrypted.isEmpty else { return .unopened(.noEnvelope) }
        guard !isErased else { return .refused(.noKey) }
        let message: Phone.Message
        do throws(Phone.Failure) {
            message = try phone.read(encrypted)
        } catch {
            return crashes(by: error) ? .crashed(error) : .refused(error)
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
            // Only the app for iOS compares. For Android, what came twice is there twice.
            if phone.magic != .android, messages.contains(message) { return .duplicate }
            if messages.count == Self.mostKept { messages.removeFirst() }
            messages.append(message)
            return .stored(message.shown)
        }
    }

    /// On iOS a text that is no Base64, or no whole blocks, is the end of the app.
    private func crashes(by failure: Phone.Failure) -> Bool {
        phone.magic != .android && [.notBase64, .cannotDecrypt].contains(failure)
    }

    // MARK: Bisq Connect and apps of one's own

    /// The app's extension puts the content in the alert's place before anyone sees it.
    private func receiveOnConnectIOS(_ notification: ReceivedNotification, _ presence: Presence) -> Reaction {
        guard let banner = notification.banner else {
            return Reaction(hasSound: false, needsTap: false, effect: .unopened(.noAlert))
        }
        guard presence == .background else {
            return Reaction(hasSound: false, needsTap: false, effect: .unopened(.inFront))
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
            reaction.effect = .refused(error)
        }
        return reaction
    }

    private mutating func receiveOnConnectAndroid(
        _ notification: ReceivedNotification, _ presence: Presence
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
            reaction.alert = Reaction.Alert(message.shown)
            // As its channel does.
            reaction.hasSound = true
            reaction.effect = replaces(message.id ?? "") ? .replaced(message.shown) : .shown(message.shown)
        } catch {
            reaction.effect = .refused(error)
        }
        return reaction
    }

    /// Whether there is one with this id on the screen; from now on there is.
    private mutating func replaces(_ id: String) -> Bool {
        if shownIDs.contains(id) { return true }
        if shownIDs.count == Self.mostKept { shownIDs.removeFirst() }
        shownIDs.append(id)
        return false
    }
}

extension Reaction.Alert {
    fileprivate init(_ banner: ReceivedNotification.Banner) { self.init(title: banner.title, text: banner.text) }

    fileprivate init(_ shown: Phone.Shown) { self.init(title: shown.title, text: shown.message) }
}
