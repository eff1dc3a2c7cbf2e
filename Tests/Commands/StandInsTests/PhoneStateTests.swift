// SPDX-License-Identifier: Apache-2.0

import TNP
import TestSupport
import Testing

@testable import StandIns

/// What the user sees and hears when a notification arrives, and what the app does.
@Suite(.tags(.sockets)) struct PhoneStateTests {
    private typealias Banner = ReceivedNotification.Banner

    private let banner = Banner(title: "Bisq", text: "Notification")
    private let trade = Phone.DisplayedContent(title: "Stav obchodu", message: "Obchod je dokončen ✓", type: "TRADE")
    private let update = Phone.DisplayedContent(
        title: "Obchod", message: "Kupující zahájil platbu", type: "trade_update")
    private let fromBanner = Reaction.Alert(title: "Bisq", text: "Notification")

    private func state(_ app: PhoneApp, _ magic: Magic = .iOS) -> PhoneState {
        PhoneState(Phone.new(magic, model: "Model 1", app: app))
    }

    private func notification(
        _ encrypted: String, to phone: Phone, banner: Banner?, sound: Bool = true, isMutable: Bool = true
    ) -> ReceivedNotification {
        ReceivedNotification(
            platform: phone.magic == .android ? .fcm : .apnsProduction, deviceToken: phone.deviceToken,
            encrypted: encrypted, banner: banner, hasSound: sound, isContentAvailable: true,
            isMutableContent: isMutable, isUrgent: true, id: "1", collapseID: nil)
    }

    /// Seals a clear text for the phone and delivers it.
    private func receive(
        _ clearText: String, on state: inout PhoneState, banner: Banner?, sound: Bool = true, isMutable: Bool = true,
        while presence: PhoneState.AppState = .background
    ) throws -> Reaction {
        let text = try Letter.encrypted(clearText, for: state.phone)
        return state.receive(
            notification(text, to: state.phone, banner: banner, sound: sound, isMutable: isMutable), while: presence)
    }

    // MARK: Pairing and erasing

    @Test(arguments: [PhoneApp.bisq, .haveno], Magic.appleAndGoogle)
    func `a confirmation pairs the phone, and a second one is ignored`(_ app: PhoneApp, _ magic: Magic) throws {
        var state = state(app, magic)
        #expect(!state.isPaired)
        let confirmation = Letter.trade(title: "", message: "", type: "SETUP_CONFIRMATION")
        let first = try receive(confirmation, on: &state, banner: banner)
        #expect(first == Reaction(alert: fromBanner, hasSound: true, needsTap: true, effect: .paired))
        #expect(state.isPaired)
        let second = try receive(confirmation, on: &state, banner: banner)
        #expect(second.effect == .alreadyPaired)
        #expect(state.isPaired)
        #expect(state.stored.isEmpty)
    }

    @Test(arguments: [PhoneApp.bisq, .haveno], Magic.appleAndGoogle)
    func `an erase removes settings, notifications and the key`(_ app: PhoneApp, _ magic: Magic) throws {
        var state = state(app, magic)
        _ = try receive(Letter.trade(type: "SETUP_CONFIRMATION"), on: &state, banner: banner)
        _ = try receive(Letter.trade(), on: &state, banner: banner)
        #expect(state.stored == [trade])
        let erased = try receive(
            Letter.trade(title: "", message: "", type: "ERASE"), on: &state, banner: banner, sound: false)
        #expect(erased == Reaction(alert: fromBanner, hasSound: false, needsTap: true, effect: .erased))
        #expect(!state.isPaired && state.isErased && state.stored.isEmpty)
        for type in ["TRADE", "SETUP_CONFIRMATION", "ERASE"] {
            let after = try receive(Letter.trade(type: type), on: &state, banner: banner)
            #expect(after.effect == .cannotOpen(.noKey))
        }
        #expect(!state.isPaired && state.stored.isEmpty)
    }

    @Test(arguments: ["OFFER", "TRADE", "DISPUTE", "PRICE", "MARKET", "FINANCIAL", "SOMETHING_NEW"])
    func `any other notification is stored, even before the pairing is confirmed`(_ type: String) throws {
        for magic in Magic.appleAndGoogle {
            var state = state(.bisq, magic)
            let reaction = try receive(Letter.trade(type: type), on: &state, banner: banner)
            let shown = Phone.DisplayedContent(title: trade.title, message: trade.message, type: type)
            #expect(reaction.effect == .stored(shown))
            #expect(reaction.shown == shown)
            #expect(state.stored == [shown])
            #expect(!state.isPaired)
        }
    }

    // MARK: Duplicates

    @Test func `the iOS app ignores a notification with the same fields as a stored one`() throws {
        var state = state(.bisq)
        #expect(try receive(Letter.trade(), on: &state, banner: banner).effect == .stored(trade))
        let again = try receive(Letter.trade(), on: &state, banner: banner)
        #expect(again.effect == .duplicate)
        #expect(again.shown == nil)
        #expect(try receive(Letter.trade(message: "other"), on: &state, banner: banner).effect != .duplicate)
        let later = Letter.trade().replacing("1533218519000", with: "1533218519001")
        #expect(try receive(later, on: &state, banner: banner).effect == .stored(trade))
        #expect(state.stored.count == 3)
    }

    @Test func `the Android app stores duplicates`() throws {
        var state = state(.bisq, .android)
        for count in 1...2 {
            #expect(try receive(Letter.trade(), on: &state, banner: banner).effect == .stored(trade))
            #expect(state.stored.count == count)
        }
    }

    @Test func `an app stores a limited number of notifications and drops the oldest`() throws {
        var state = state(.bisq)
        for number in 0...PhoneState.maximumStored {
            _ = try receive(Letter.trade(message: "\(number)"), on: &state, banner: banner)
        }
        #expect(state.stored.count == PhoneState.maximumStored)
        #expect(state.stored.first?.message == "1")
        #expect(try receive(Letter.trade(message: "0"), on: &state, banner: banner).effect != .duplicate)
        #expect(try receive(Letter.trade(message: "9"), on: &state, banner: banner).effect == .duplicate)
    }

    // MARK: Alerts and sounds

    @Test func `Bisq on iOS shows the alert as sent and opens the envelope on a tap`() throws {
        for text in ["Bisq notification", "notification"] {
            var state = state(.bisq)
            let reaction = try receive(Letter.trade(), on: &state, banner: Banner(text: text), sound: true)
            #expect(
                reaction
                    == Reaction(
                        alert: Reaction.Alert(text: text), hasSound: true, needsTap: true, effect: .stored(trade)))
        }
        var state = state(.bisq)
        #expect(try !receive(Letter.trade(), on: &state, banner: banner, sound: false).hasSound)
    }

    @Test func `Bisq on iOS does not open a notification without an alert unless in the foreground`() throws {
        var state = state(.bisq)
        let silent = try receive(Letter.trade(), on: &state, banner: nil)
        #expect(silent == Reaction(hasSound: false, needsTap: false, effect: .unopened(.noAlert)))
        #expect(state.stored.isEmpty)
        for banner in [nil, banner] {
            var state = self.state(.bisq)
            let inForeground = try receive(Letter.trade(), on: &state, banner: banner, while: .foreground)
            #expect(inForeground == Reaction(hasSound: false, needsTap: false, effect: .stored(trade)))
        }
    }

    @Test func `Android shows a notification block in the background and leaves it to a foreground app`() throws {
        for sound in [true, false] {
            var state = state(.bisq, .android)
            let inBackground = try receive(Letter.trade(), on: &state, banner: banner, sound: sound)
            #expect(
                inBackground == Reaction(alert: fromBanner, hasSound: sound, needsTap: true, effect: .stored(trade)))
            let inForeground = try receive(Letter.trade(), on: &state, banner: banner, sound: sound, while: .foreground)
            #expect(inForeground == Reaction(hasSound: false, needsTap: false, effect: .stored(trade)))
        }
    }

    @Test(arguments: PhoneState.AppState.allCases)
    func `Bisq on Android shows a data-only message itself, with the sound of its channel`(
        _ presence: PhoneState.AppState
    ) throws {
        var state = state(.bisq, .android)
        let shown = try receive(Letter.trade(), on: &state, banner: nil, sound: false, while: presence)
        let alert = Reaction.Alert(title: trade.title, text: trade.message)
        #expect(shown == Reaction(alert: alert, hasSound: true, needsTap: false, effect: .stored(trade)))
        for type in ["SETUP_CONFIRMATION", "ERASE"] {
            let quiet = try receive(Letter.trade(type: type), on: &state, banner: nil, while: presence)
            #expect(quiet.alert == nil && !quiet.hasSound)
        }
    }

    @Test(arguments: [PhoneApp.bisq, .haveno, .bisqConnect, .custom], Magic.appleAndGoogle)
    func `an app opens nothing if a notification has no envelope`(_ app: PhoneApp, _ magic: Magic) {
        var state = state(app, magic)
        let block = app.format == .sealed && magic == .android ? nil : banner
        let reaction = state.receive(notification("", to: state.phone, banner: block))
        #expect(reaction.effect == .unopened(.noEnvelope))
    }

    // MARK: Envelopes that cannot be opened

    @Test func `Bisq on iOS crashes on bad Base64 or a partial block, Bisq on Android does not`() throws {
        for (magic, system) in [(Magic.iOS, "iOS"), (.android, "Android")] {
            var state = state(.bisq, magic)
            let blocks = Letter.piped(
                Array(try Letter.ciphertext(Letter.trade()).dropLast()), magic: "BisqMessage\(system)")
            let cases: [(String, Phone.Failure)] = [
                ("BisqMessage\(system)|\(Letter.iv)|***", .notBase64), (blocks, .cannotDecrypt),
            ]
            for (text, failure) in cases {
                let reaction = state.receive(notification(text, to: state.phone, banner: banner))
                #expect(reaction.effect == (magic == .iOS ? .crashed(failure) : .cannotOpen(failure)))
                #expect(reaction.alert == fromBanner)
            }
            let foreign = state.receive(notification("x|y|z", to: state.phone, banner: banner))
            #expect(foreign.effect == .cannotOpen(.wrongMagic))
            let otherKey = Letter.piped(try Letter.ciphertext(Letter.trade()), magic: "BisqMessage\(system)")
            #expect(
                state.receive(notification(otherKey, to: state.phone, banner: banner)).effect
                    == .cannotOpen(.unexpectedJSON))
            #expect(state.stored.isEmpty)
        }
    }

    @Test func `Bisq on Android shows nothing for a data-only message that it cannot open`() {
        var state = state(.bisq, .android)
        let reaction = state.receive(notification("x|y|z", to: state.phone, banner: nil))
        #expect(reaction == Reaction(hasSound: false, needsTap: false, effect: .cannotOpen(.wrongMagic)))
    }

    // MARK: Bisq Connect

    @Test(arguments: [PhoneApp.bisqConnect, .custom])
    func `Bisq Connect on iOS replaces the alert with the content`(_ app: PhoneApp) throws {
        var state = state(app)
        for sound in [true, false] {
            let reaction = try receive(Letter.connect(), on: &state, banner: banner, sound: sound)
            let alert = Reaction.Alert(title: update.title, text: update.message)
            #expect(reaction == Reaction(alert: alert, hasSound: sound, needsTap: false, effect: .shown(update)))
        }
        #expect(state.stored.isEmpty)
    }

    @Test func `without mutable-content Bisq Connect on iOS shows the alert as sent and opens nothing`() throws {
        var state = state(.bisqConnect)
        let reaction = try receive(
            Letter.connect(), on: &state, banner: Banner(text: "notification"), isMutable: false)
        let alert = Reaction.Alert(text: "notification")
        #expect(reaction == Reaction(alert: alert, hasSound: true, needsTap: false, effect: .unopened(.notMutable)))
    }

    @Test func `Bisq Connect on iOS shows a generic alert for an envelope that it cannot open`() throws {
        var state = state(.bisqConnect)
        let foreign = Letter.base64(try Letter.sealed(Letter.connect()))
        for (text, failure) in [(foreign, Phone.Failure.cannotDecrypt), ("x|y|z", .notBase64), ("QUFB", .tooShort)] {
            let reaction = state.receive(notification(text, to: state.phone, banner: banner))
            let alert = Reaction.Alert(title: "Bisq", text: "New notification")
            #expect(reaction == Reaction(alert: alert, hasSound: true, needsTap: false, effect: .cannotOpen(failure)))
        }
    }

    @Test func `Bisq Connect on iOS shows nothing without an alert or in the foreground`() throws {
        var state = state(.bisqConnect)
        let silent = try receive(Letter.connect(), on: &state, banner: nil)
        #expect(silent == Reaction(hasSound: false, needsTap: false, effect: .unopened(.noAlert)))
        let inForeground = try receive(Letter.connect(), on: &state, banner: banner, while: .foreground)
        #expect(inForeground == Reaction(hasSound: false, needsTap: false, effect: .unopened(.inForeground)))
    }

    @Test func `Bisq Connect on Android opens only data-only messages`() throws {
        var state = state(.bisqConnect, .android)
        let block = try receive(Letter.connect(), on: &state, banner: banner)
        #expect(block == Reaction(alert: fromBanner, hasSound: true, needsTap: false, effect: .unopened(.notDataOnly)))
        let data = try receive(Letter.connect(), on: &state, banner: nil)
        let alert = Reaction.Alert(title: update.title, text: update.message)
        #expect(data == Reaction(alert: alert, hasSound: true, needsTap: false, effect: .shown(update)))
        let foreign = Letter.base64(try Letter.sealed(Letter.connect()))
        let refused = state.receive(notification(foreign, to: state.phone, banner: nil))
        #expect(refused == Reaction(hasSound: false, needsTap: false, effect: .cannotOpen(.cannotDecrypt)))
    }

    @Test func `on Android a notification with the same id replaces the earlier one`() throws {
        var state = state(.bisqConnect, .android)
        #expect(try receive(Letter.connect(id: "a"), on: &state, banner: nil).effect == .shown(update))
        #expect(try receive(Letter.connect(id: "b"), on: &state, banner: nil).effect == .shown(update))
        let paid = Phone.DisplayedContent(title: "Obchod", message: "Zaplaceno", type: "trade_update")
        let again = try receive(Letter.connect(id: "a", message: "Zaplaceno"), on: &state, banner: nil)
        #expect(again.effect == .replaced(paid))
    }

    // MARK: Description

    @Test func `a reaction's description has its alert, sound and effect`() {
        let alert = Reaction.Alert(title: "Bisq", text: "Notification")
        let stored = Reaction(alert: alert, hasSound: true, needsTap: true, effect: .stored(trade))
        #expect("\(stored)" == "\"Bisq: Notification\" ♪ → [TRADE] Stav obchodu – Obchod je dokončen ✓, stored")
        let refused = Reaction(
            alert: Reaction.Alert(text: "x"), hasSound: false, needsTap: true, effect: .cannotOpen(.wrongMagic))
        #expect("\(refused)" == "\"x\" → cannot open it: its magic belongs to another app or system")
        let silent = Reaction(hasSound: false, needsTap: false, effect: .duplicate)
        #expect("\(silent)" == "nothing on the screen → ignored: duplicate")
    }
}
