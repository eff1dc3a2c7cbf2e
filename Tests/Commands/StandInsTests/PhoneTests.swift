// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP
import TestSupport
import Testing

@testable import StandIns

/// What an app opens, and what it rejects for which reason.
@Suite(.tags(.sockets)) struct PhoneTests {
    private let iPhone: Phone
    private let pixel: Phone
    /// A phone with a custom app.
    private let custom: Phone
    private let clearText = Letter.trade(message: "Žluťoučký obchod je dokončen 🚀")
    private let shown = Phone.DisplayedContent(
        title: "Stav obchodu", message: "Žluťoučký obchod je dokončen 🚀", type: "TRADE")

    init() throws {
        iPhone = try Letter.phone(.bisq)
        pixel = try Letter.phone(.bisq, isAndroid: true)
        custom = try Letter.phone(.custom)
    }

    // MARK: Magic, iv and ciphertext

    @Test func `a phone opens an envelope sealed for it, with text in any script`() throws {
        let bytes = try Letter.ciphertext(clearText)
        let onIPhone = try iPhone.open(Letter.piped(bytes))
        let onPixel = try pixel.open(Letter.piped(bytes, magic: "BisqMessageAndroid"))
        #expect(onIPhone == shown)
        #expect(onPixel == shown)
    }

    @Test func `a phone rejects the magic of the other platform`() throws {
        let bytes = try Letter.ciphertext(clearText)
        for magic in ["BisqMessageAndroid", "bisqmessageios", "Bisq"] {
            #expect(throws: Phone.Failure.wrongMagic) { try iPhone.open(Letter.piped(bytes, magic: magic)) }
        }
        #expect(throws: Phone.Failure.wrongMagic) { try pixel.open(Letter.piped(bytes)) }
    }

    @Test func `an iv must have 16 characters`() throws {
        let bytes = try Letter.ciphertext(clearText)
        for iv in ["293a4b5c6d7e4f9", "293a4b5c6d7e4f901"] {
            #expect(throws: Phone.Failure.wrongIVLength) { try iPhone.open(Letter.piped(bytes, iv: iv)) }
        }
    }

    @Test func `an envelope must have three non-empty parts`() throws {
        let text = try Letter.piped(Letter.ciphertext(clearText))
        let iv = Letter.iv
        for wrong in [text + "|x", "BisqMessageiOS|\(iv)", "BisqMessageiOS|\(iv)|", "BisqMessageiOS||QUFB", "|", "||"] {
            #expect(throws: Phone.Failure.notThreeParts) { try iPhone.open(wrong) }
        }
    }

    @Test func `iOS ignores all empty parts, Android only trailing ones`() throws {
        let onIPhone = Letter.piped(try Letter.ciphertext(clearText))
        let onPixel = Letter.piped(try Letter.ciphertext(clearText), magic: "BisqMessageAndroid")
        #expect(try iPhone.open("|" + onIPhone) == shown)
        #expect(try iPhone.open(onIPhone + "||") == shown)
        #expect(throws: Phone.Failure.notThreeParts) { try pixel.open("|" + onPixel) }
        #expect(try pixel.open(onPixel + "||") == shown)
        #expect(throws: Phone.Failure.wrongIVLength) { try pixel.open("BisqMessageAndroid||QUFB") }
        for wrong in ["", "|", "BisqMessageAndroid|\(Letter.iv)|", onPixel + "|x"] {
            #expect(throws: Phone.Failure.notThreeParts) { try pixel.open(wrong) }
        }
    }

    @Test func `the Haveno app and the Bisq app accept only their own magic`() throws {
        let bytes = try Letter.ciphertext(clearText)
        for (isAndroid, system) in [(false, "iOS"), (true, "Android")] {
            let haveno = try Letter.phone(.haveno, isAndroid: isAndroid)
            let bisq = isAndroid ? pixel : iPhone
            #expect(try haveno.open(Letter.piped(bytes, magic: "HavenoMessage\(system)")) == shown)
            #expect(throws: Phone.Failure.wrongMagic) {
                try haveno.open(Letter.piped(bytes, magic: "BisqMessage\(system)"))
            }
            #expect(throws: Phone.Failure.wrongMagic) {
                try bisq.open(Letter.piped(bytes, magic: "HavenoMessage\(system)"))
            }
        }
    }

    @Test func `the ciphertext must be Base64 of whole blocks`() throws {
        let good = try Letter.ciphertext(clearText)
        for text in ["***", "QUFB\n", "QUF", "-___"] {
            #expect(throws: Phone.Failure.notBase64) { try iPhone.open("BisqMessageiOS|\(Letter.iv)|\(text)") }
        }
        #expect(throws: Phone.Failure.cannotDecrypt) { try iPhone.open(Letter.piped(Array(good.dropLast()))) }
    }

    @Test func `a ciphertext that was altered or sealed with another key is not opened`() throws {
        let good = try Letter.ciphertext(clearText)
        for index in [0, 16, good.count - 17] {
            var altered = good
            altered[index] ^= 1
            let text = Letter.piped(altered)
            #expect(throws: Phone.Failure.unexpectedJSON) { try iPhone.open(text) }
        }
        let foreign = try Letter.ciphertext(clearText, key: Array("B4C595428CAA4C768F60AE7EBFF85852".utf8))
        #expect(throws: Phone.Failure.unexpectedJSON) { try iPhone.open(Letter.piped(foreign)) }
    }

    @Test(arguments: ["sentDate", "txId", "title", "message", "type", "actionRequired", "version"])
    func `the iOS app requires all seven keys`(_ missing: String) throws {
        let renamed = clearText.replacing("\"\(missing)\":", with: "\"other\":")
        #expect(renamed != clearText)
        let text = try Letter.piped(Letter.ciphertext(renamed))
        #expect(throws: Phone.Failure.unexpectedJSON) { try iPhone.open(text) }
        let member = try Regex("\"\(missing)\":(\"[^\"]*\"|[0-9]+)")
        let empty = clearText.replacing(member, with: "\"\(missing)\":null")
        #expect(empty != clearText)
        let nulled = try Letter.piped(Letter.ciphertext(empty))
        #expect(throws: Phone.Failure.unexpectedJSON) { try iPhone.open(nulled) }
    }

    @Test func `the iOS app ignores an unknown key, the Android app rejects it`() throws {
        let bytes = try Letter.ciphertext(clearText.dropLast() + #","other":1}"#)
        #expect(try iPhone.open(Letter.piped(bytes)) == shown)
        #expect(throws: Phone.Failure.unexpectedJSON) {
            try pixel.open(Letter.piped(bytes, magic: "BisqMessageAndroid"))
        }
    }

    @Test func `the Android app knows ten keys and requires none`() throws {
        func open(_ clearText: String) throws -> Phone.DisplayedContent {
            try pixel.open(Letter.piped(Letter.ciphertext(clearText), magic: "BisqMessageAndroid"))
        }
        let all = """
            {"uid":1,"version":0,"type":"TRADE","title":"t","message":"m","actionRequired":"","txId":"1",\
            "receivedDate":1740381234151,"sentDate":1740381174151,"read":false}
            """
        #expect(try open(all) == Phone.DisplayedContent(title: "t", message: "m", type: "TRADE"))
        #expect(try open("{}") == Phone.DisplayedContent(title: "", message: "", type: ""))
        for wrong in ["[]", "7", "no JSON", #"{"sentDate":"now"}"#, #"{"title":7}"#, #"{"read":"no"}"#] {
            #expect(throws: Phone.Failure.unexpectedJSON) { try open(wrong) }
        }
    }

    @Test func `the iOS app requires version 1 and the right types`() throws {
        let cases = [
            (#""version":1"#, #""version":0"#), (#""version":1"#, #""version":"1""#),
            (#""sentDate":1533218519000"#, #""sentDate":"now""#), (#""title":"Stav obchodu""#, #""title":7"#),
        ]
        for (part, other) in cases {
            let changed = clearText.replacing(part, with: other)
            #expect(changed != clearText)
            let text = try Letter.piped(Letter.ciphertext(changed))
            #expect(throws: Phone.Failure.unexpectedJSON) { try iPhone.open(text) }
        }
        for other in ["no JSON at all", "{}", "[]"] {
            let text = try Letter.piped(Letter.ciphertext(other))
            #expect(throws: Phone.Failure.unexpectedJSON) { try iPhone.open(text) }
        }
    }

    // MARK: AES-GCM

    @Test func `a phone opens an AES-GCM envelope`() throws {
        let whole = #"{"id":"7f3a","title":"Obchod","message":"Kupující zahájil platbu","category":"trade_update"}"#
        let opened = try custom.open(Letter.base64(Letter.sealed(whole)))
        #expect(
            opened == Phone.DisplayedContent(title: "Obchod", message: "Kupující zahájil platbu", type: "trade_update"))
        let plain = try custom.open(Letter.base64(Letter.sealed(#"{"id":"7f3a","title":"t","message":"m"}"#)))
        #expect(plain == Phone.DisplayedContent(title: "t", message: "m", type: "general"))
    }

    @Test func `an altered bit of nonce, ciphertext or tag fails decryption, and so does another key`() throws {
        let good = try Letter.sealed(#"{"id":"7f3a","title":"t","message":"m"}"#)
        for index in [0, 11, 12, good.count - 17, good.count - 16, good.count - 1] {
            var altered = good
            altered[index] ^= 1
            let text = Letter.base64(altered)
            #expect(throws: Phone.Failure.cannotDecrypt) { try custom.open(text) }
        }
        let foreign = try Letter.sealed(
            #"{"id":"7f3a","title":"t","message":"m"}"#, key: [UInt8](repeating: 1, count: 32))
        #expect(throws: Phone.Failure.cannotDecrypt) { try custom.open(Letter.base64(foreign)) }
    }

    @Test func `an AES-GCM envelope that is too short is not opened`() throws {
        let good = try Letter.sealed(#"{"id":"7f3a","title":"t","message":"m"}"#)
        for count in [0, 1, 12, 13, 27, 28] {
            let text = Letter.base64(Array(good.prefix(count)))
            let failure: Phone.Failure = count < 13 ? .tooShort : .cannotDecrypt
            #expect(throws: failure) { try custom.open(text) }
        }
        #expect(throws: Phone.Failure.notBase64) { try custom.open("not Base64") }
    }

    @Test func `an app of the sealed format ignores unknown keys`() throws {
        let more = #"{"id":"7f3a","title":"t","message":"m","tradeId":"9","later":{"a":[1]}}"#
        #expect(try custom.open(Letter.base64(Letter.sealed(more))).message == "m")
    }

    @Test(arguments: Magic.appleAndGoogle)
    func `Bisq Connect opens an envelope sealed with the key that it registered`(_ magic: Magic) throws {
        let phone = Phone.new(magic, model: "Model 1", app: .bisqConnect)
        let opened = try phone.open(Letter.encrypted(Letter.connect(), for: phone))
        #expect(opened.title == "Obchod")
        let foreign = Letter.base64(try Letter.sealed(Letter.connect()))
        #expect(throws: Phone.Failure.cannotDecrypt) { try phone.open(foreign) }
    }

    @Test func `no app opens an envelope of the other format`() throws {
        let piped = Letter.piped(try Letter.ciphertext(clearText))
        let sealed = Letter.base64(try Letter.sealed(Letter.connect()))
        #expect(throws: Phone.Failure.notThreeParts) { try iPhone.open(sealed) }
        #expect(throws: Phone.Failure.notThreeParts) { try pixel.open(sealed) }
        #expect(throws: Phone.Failure.notBase64) { try custom.open(piped) }
        #expect(throws: Phone.Failure.notBase64) {
            try Phone.new(.iOS, model: "Model 1", app: .bisqConnect).open(piped)
        }
    }

    @Test(arguments: ["id", "title", "message"])
    func `an app of the sealed format requires id, title and message`(_ missing: String) throws {
        let whole = #"{"id":"7f3a","title":"t","message":"m"}"#
        let text = try Letter.base64(Letter.sealed(whole.replacing("\"\(missing)\":", with: "\"other\":")))
        #expect(throws: Phone.Failure.unexpectedJSON) { try custom.open(text) }
    }

    // MARK: Pairing

    @Test(arguments: Magic.appleAndGoogle)
    func `a new phone has a unique pairing token that senders and the node accept`(_ magic: Magic) throws {
        let phone = Phone.new(magic, model: "Model 1")
        let pairing = try PairingToken(phone.pairingToken)
        #expect(pairing.magic == magic)
        #expect(pairing.descriptor == "Model 1")
        #expect(pairing.key.count == PairingToken.keyLength)
        #expect(pairing.deviceToken == phone.pairing.deviceToken)
        #expect(magic == .android || pairing.deviceToken.utf8.count == PairingToken.appleTokenLength)
        #expect(magic != .android || pairing.deviceToken.contains(":APA91b"))
        let envelope = try Envelope(
            magic: magic, deviceToken: Array(pairing.deviceToken.utf8)[...], iv: Array(Letter.iv.utf8)[...],
            ciphertext: Letter.ciphertext(clearText)[...], format: .pipe)
        #expect(Array(envelope.deviceToken) == Array(pairing.deviceToken.utf8))
        let another = Phone.new(magic, model: "Model 1")
        #expect(another.pairing.deviceToken != phone.pairing.deviceToken)
        #expect(another.pairingToken.split(separator: "|")[2] != phone.pairingToken.split(separator: "|")[2])
    }

    @Test(arguments: Magic.appleAndGoogle)
    func `Bisq Connect makes a 32-byte key and registers instead of pairing`(_ magic: Magic) throws {
        let phone = Phone.new(magic, model: "Model 1", app: .bisqConnect)
        let registration = try #require(phone.registration)
        #expect(registration.platform == (magic == .android ? .android : .iOS))
        #expect(registration.platform.rawValue == (magic == .android ? "ANDROID" : "IOS"))
        #expect(registration.symmetricKeyBase64.utf8.count == 44)
        let key = try #require(Base64.decode(Array(registration.symmetricKeyBase64.utf8)))
        #expect(key.count == 32 && phone.key.withBytes { span in span.withUnsafeBytes { $0.elementsEqual(key) } })
        #expect(registration.deviceToken == phone.deviceToken)
        let length = registration.deviceToken.utf8.count
        #expect(magic == .android ? (100...300).contains(length) : length == 64)
        #expect(registration.descriptor == "Model 1")
        let another = try #require(Phone.new(magic, model: "Model 1", app: .bisqConnect).registration)
        #expect(another.deviceID != registration.deviceID)
        #expect(another.symmetricKeyBase64 != registration.symmetricKeyBase64)
    }

    @Test func `an app that pairs has no registration, and no phone prints its device token`() {
        for app in PhoneApp.allCases {
            let phone = Phone.new(.iOS, model: "Model 1", app: app)
            #expect((phone.registration == nil) == app.usesPairingToken)
            for text in ["\(phone)", String(reflecting: phone), "\(phone.registration as Any)"] {
                #expect(!text.contains(phone.deviceToken))
            }
        }
    }
}
