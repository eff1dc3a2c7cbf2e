// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Foundation
import TestSupport
import Testing

@testable import TNP
@testable import TocsinClient

@Suite(.tags(.sockets)) struct BisqNotificationTests {
    /// The notification as a phone decodes it.
    private struct Decoded: Decodable, Equatable {
        let sentDate: Int64
        let txId: String
        let title: String
        let message: String
        let type: String
        let actionRequired: String
        let version: Int
    }

    @Test func `the JSON fields appear in the desktop's order`() {
        let notification = BisqNotification(
            kind: .trade, title: "Trade state changed", message: "The trade with ID 29384203 is completed.",
            transactionID: "29384203", sentDate: 1_533_218_519_000)
        let expected =
            #"{"sentDate":1533218519000,"txId":"29384203","title":"Trade state changed","#
            + #""message":"The trade with ID 29384203 is completed.","type":"TRADE","actionRequired":"","version":1}"#
        #expect(text(notification) == expected)
    }

    @Test func `empty fields are written`() {
        let notification = BisqNotification(
            kind: .setupConfirmation, title: "", message: "", sentDate: 1_533_218_519_000)
        let expected =
            #"{"sentDate":1533218519000,"txId":"","title":"","message":"","type":"SETUP_CONFIRMATION","#
            + #""actionRequired":"","version":1}"#
        #expect(text(notification) == expected)
    }

    @Test func `each kind has the desktop's name`() {
        let names = BisqNotification.Kind.allCases.map(\.rawValue)
        let expected = [
            "SETUP_CONFIRMATION", "OFFER", "TRADE", "DISPUTE", "PRICE", "MARKET", "FINANCIAL", "ERASE",
        ]
        #expect(names == expected)
    }

    @Test(arguments: [
        ("'", #"\u0027"#), ("<", #"\u003c"#), (">", #"\u003e"#), ("&", #"\u0026"#), ("=", #"\u003d"#),
        ("\u{2028}", #"\u2028"#), ("\u{2029}", #"\u2029"#), ("\"", #"\""#), ("\\", #"\\"#), ("\n", #"\n"#),
        ("\r", #"\r"#), ("\r\n", #"\r\n"#), ("\t", #"\t"#), ("\u{8}", #"\b"#), ("\u{C}", #"\f"#),
        ("\u{0}", #"\u0000"#), ("\u{B}", #"\u000b"#), ("\u{1B}", #"\u001b"#), ("\u{1F}", #"\u001f"#),
        ("<a href='x'>", #"\u003ca href\u003d\u0027x\u0027\u003e"#),
    ])
    func `characters that Gson escapes are escaped the same way`(_ plain: String, _ escaped: String) {
        check(plain, isWritten: escaped)
    }

    @Test(arguments: [
        "/", "\u{7F}", "\u{80}", "\u{A0}", "\u{2027}", "|", "é", "e\u{301}", "Žluťoučký", "日本語", "🚀", "👩‍🚀",
    ])
    func `all other characters are written unescaped`(_ plain: String) {
        check(plain, isWritten: plain)
    }

    @Test func `a JSON decoder reads back what was written`() throws {
        let hard = "'<>&=\"\\/\n\r\t\u{8}\u{C}\u{1}\u{1F}\u{7F}\u{2028}\u{2029} Žluťoučký 🚀 e\u{301}"
        let notification = BisqNotification(
            kind: .market, title: hard, message: "\(hard)\(hard)", transactionID: hard, sentDate: -1)
        let expected = Decoded(
            sentDate: -1, txId: hard, title: hard, message: "\(hard)\(hard)", type: "MARKET", actionRequired: "",
            version: 1)
        let decoded = try JSONDecoder().decode(Decoded.self, from: Data(notification.json))
        #expect(decoded == expected)
    }

    private func text(_ notification: BisqNotification) -> String {
        String(decoding: notification.json, as: UTF8.self)
    }

    private func check(_ plain: String, isWritten written: String, sourceLocation: SourceLocation = #_sourceLocation) {
        let notification = BisqNotification(
            kind: .offer, title: plain, message: "a\(plain)b", transactionID: plain, sentDate: 1)
        let expected =
            "{\"sentDate\":1,\"txId\":\"\(written)\",\"title\":\"\(written)\",\"message\":\"a\(written)b\","
            + "\"type\":\"OFFER\",\"actionRequired\":\"\",\"version\":1}"
        // Compares bytes: strings treat é and e + ´ as equal.
        #expect(notification.json == Array(expected.utf8), sourceLocation: sourceLocation)
    }
}

@Suite(.tags(.sockets)) struct SealerTests {
    private static let token = "d45161df3d172837f1b83bb3e411d5a63120de6b435ff9235adb70d619d162a1"
    private static let key = "A4C595428CAA4C768F60AE7EBFF85852"
    private static let iv = Array("293a4b5c6d7e4f90".utf8)

    @Test func `the desktop's own example seals to the desktop's ciphertext`() throws {
        let sealer = try Self.sealer(key: "12345678901234567890123456789012")
        let envelope = try sealer.seal(Array("Hello, world!".utf8), iv: Array("1234567890123456".utf8), bucket: 1)
        #expect(Self.base64(envelope) == "togxz/g4oxOX5SOwa1OxiQ==")
        #expect(Self.delivered(envelope) == "BisqMessageiOS|1234567890123456|togxz/g4oxOX5SOwa1OxiQ==")
    }

    @Test func `a setup confirmation seals to the desktop's ciphertext`() throws {
        let notification = BisqNotification(
            kind: .setupConfirmation, title: "", message: "", transactionID: "", sentDate: 1_533_218_519_000)
        let envelope = try Self.sealer().seal(notification.json, iv: Self.iv, bucket: 1)
        let expected =
            "SRXGMaX6EpysLZnoc29HdThvLQHcBUenoom+VsFrgjPS4DsjzMrdG/zE4/ZjIsOCaIYIM3ktJ1irsA6ben80jAzeLXGT652f8twxn4Dwf"
            + "K8w6HULGo+qMT8HMiXQKUTWFMxXn0l8PioC7QkouT4Kzj6KSBWZdyFu7Bx6jRmlOyo="
        #expect(Self.base64(envelope) == expected)
        #expect(Self.delivered(envelope) == "BisqMessageiOS|293a4b5c6d7e4f90|\(expected)")
        #expect(envelope.ciphertext.count == 128)
    }

    @Test func `each notification vector has its text, whatever the phone, in the schema of one's own apps`() throws {
        #expect(!Vectors.all.notifications.isEmpty)
        for vector in Vectors.all.notifications {
            let notification = BisqNotification(
                kind: try #require(BisqNotification.Kind(rawValue: vector.type)), title: vector.title,
                message: vector.message, transactionID: vector.tx_id, actionRequired: vector.action_required,
                sentDate: vector.sent_date)
            #expect(String(decoding: notification.json, as: UTF8.self) == vector.text, "\(vector.name)")
            for key in [Self.key, "PJ1dFk6oJloK70uqGxBHPVUPsKNqVXQ7WMdmd+Fhlz4="] {
                let sealer = Sealer(try PairingToken("iOS|x|\(key)|\(String(repeating: "a", count: 64))"))
                let sealed = try sealer.seal(notification, schema: .tocsin)
                #expect(sealed.ciphertext.count == (sealer.format == .pipe ? 256 : 272), "\(vector.name)")
            }
        }
    }

    @Test func `each pipe vector seals to its ciphertext`() throws {
        let vectors = Vectors.all.sealing.filter { $0.format == "pipe" }
        #expect(!vectors.isEmpty)
        for vector in vectors {
            let sealer = try Self.sealer(key: vector.key)
            let envelope = try sealer.seal(Array(vector.plaintext.utf8), iv: Array(vector.iv.utf8), bucket: 1)
            #expect(Hex.encode(envelope.ciphertext) == vector.ciphertext, "\(vector.name)")
        }
    }

    @Test func `the envelope carries the values of the pairing and the caller`() throws {
        let google = String(repeating: "g", count: 163)
        let sealer = Sealer(try PairingToken("android|Pixel|\(Self.key)|\(google)"))
        let envelope = try sealer.seal(Array("x".utf8), iv: Self.iv, app: "haveno", ttl: 60, sound: false)
        #expect(envelope.magic == .android)
        #expect(Array(envelope.deviceToken) == Array(google.utf8))
        #expect(Array(envelope.iv) == Self.iv)
        #expect(Array(envelope.app) == Array("haveno".utf8))
        #expect(envelope.ttl == 60)
        #expect(!envelope.sound)
        let plain = try Self.sealer().seal(Array("x".utf8))
        #expect(plain.magic == .iOS)
        #expect(plain.app.isEmpty)
        #expect(plain.ttl == Envelope.maximumTTL)
        #expect(plain.sound)
        #expect(plain.priority == .immediate)
        #expect(plain.collapseID == nil)
    }

    @Test func `padding fills the last block with spaces, and a full block gets none`() throws {
        for count in 1...64 {
            let clearText = [UInt8](repeating: UInt8(ascii: "x"), count: count)
            let envelope = try Self.sealer().seal(clearText, iv: Self.iv, bucket: 1)
            let padding = (16 - count % 16) % 16
            #expect(envelope.ciphertext.count == count + padding)
            let opened = try #require(Self.open(envelope))
            #expect(opened == clearText + [UInt8](repeating: UInt8(ascii: " "), count: padding))
        }
    }

    @Test func `texts are padded to buckets as far as the push services allow`() throws {
        for (count, padded) in [(1, 256), (256, 256), (257, 512), (2560, 2560), (2561, 2816), (2816, 2816)] {
            let clearText = [UInt8](repeating: UInt8(ascii: "x"), count: count)
            #expect(try Self.sealer().seal(clearText, iv: Self.iv).ciphertext.count == padded)
        }
        // Beyond the last bucket, only the cipher's own padding.
        #expect(Sealer.padded([UInt8](repeating: 0, count: 2817), bucket: 256, block: 16).count == 2832)
        #expect(Sealer.padded([UInt8](repeating: 0, count: 2817), bucket: 256, block: 1).count == 2817)
    }

    @Test func `notifications of all types have the same length`() throws {
        let lengths = try BisqNotification.Kind.allCases.map { kind in
            let notification = BisqNotification(kind: kind, title: "", message: "Trade 123 is paid", sentDate: 1)
            return try Self.sealer().seal(notification).ciphertext.count
        }
        #expect(Set(lengths) == [256])
    }

    @Test(arguments: ["č", "Žluťoučký obchod 29384203 je dokončen.", "日本語", "🚀🌕", "👩‍🚀", "e\u{301}"])
    func `padding counts bytes, not characters`(_ message: String) throws {
        for filler in 0..<16 {
            let notification = BisqNotification(
                kind: .trade, title: String(repeating: "x", count: filler), message: message, sentDate: 1)
            let clearText = notification.json
            let envelope = try Self.sealer().seal(clearText, iv: Self.iv, bucket: 1)
            #expect(envelope.ciphertext.count.isMultiple(of: 16))
            #expect(envelope.ciphertext.count - clearText.count < 16)
            let opened = try #require(Self.open(envelope))
            #expect(Array(opened.prefix(clearText.count)) == clearText)
            #expect(opened.dropFirst(clearText.count).allSatisfy { $0 == UInt8(ascii: " ") })
        }
    }

    @Test func `a fresh pipe IV is 16 printable characters without a bar`() throws {
        for _ in 0..<1000 {
            let iv = Sealer.freshIV(.pipe)
            #expect(iv.count == 16)
            let isPrintable = iv.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "|") }
            #expect(isPrintable)
        }
        let envelope = try Self.sealer().seal(Array("x".utf8))
        #expect(envelope.iv.count == 16)
    }

    @Test func `an envelope for a sealed app opens with AES-GCM under the pairing's key`() throws {
        let key = [UInt8](0..<32)
        let base64 = String(decoding: Base64.encode(key), as: UTF8.self)
        let pairing = try PairingToken("iOS|iPhone|\(base64)|\(Self.token)")
        #expect(pairing.defaultFormat == .sealed)
        let notification = BisqNotification(
            kind: .offer, title: "Nabídka", message: "Přijata \"✓\"", transactionID: "29384203", sentDate: 1)
        let envelope = try Sealer(pairing).seal(notification, app: "connect", ttl: 60)
        #expect(envelope.iv.count == 12 && Array(envelope.app) == Array("connect".utf8))
        let opened = try #require(AESGCM.open(Array(envelope.ciphertext), key: key, nonce: Array(envelope.iv)))
        #expect(opened.count == Sealer.bucket)
        let end = opened.lastIndex { $0 != UInt8(ascii: " ") } ?? 0
        let text = String(decoding: opened[...end], as: UTF8.self)
        #expect(text.hasPrefix("{\"id\":\""))
        #expect(text.contains("\"title\":\"Nabídka\",\"message\":\"Přijata \\\"✓\\\"\""))
        #expect(text.hasSuffix(",\"category\":\"offer_update\",\"tradeId\":\"29384203\"}"))
        // Another app may use the sealed format with a key of 32 characters.
        #expect(try Sealer(PairingToken("iOS|iPhone|\(Self.key)|\(Self.token)")).format == .pipe)
        #expect(
            try Sealer(PairingToken("iOS|iPhone|\(Self.key)|\(Self.token)"), format: .sealed).seal([1]).iv.count == 12)
    }

    @Test(arguments: [
        // hashlib.blake2b(b"tnp1-sender-seed" + token, key=key, digest_size=32), and the public key of that seed.
        (
            "iOS|iPhone|A4C5EB9EDF1B0B0C2F8B9F2B1F0E7D6C|" + String(repeating: "ab", count: 32),
            "3305c51a04139a66d5db9e6a0fa016793b7fe469b2505a49653c0e8a8f4bb17b"
        ),
        (
            "android|Pixel|AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=|" + String(repeating: "x", count: 40),
            "9e68dd8a4c6b8933c7185d226fc0a28753e0ebaf17abb50be844faa6bf8eb9bc"
        ),
    ])
    func `the sender key depends only on the pairing`(_ pairing: String, _ publicKey: String) throws {
        #expect(Hex.encode(Sealer(try PairingToken(pairing)).senderKey.publicKey) == publicKey)
    }

    @Test func `fresh IVs do not repeat`() {
        let ivs = Set((0..<1000).map { _ in Sealer.freshIV(.pipe) })
        #expect(ivs.count == 1000)
    }

    @Test func `sealing the same text twice gives different envelopes`() throws {
        let sealer = try Self.sealer()
        let one = try sealer.seal(Array("x".utf8))
        let other = try sealer.seal(Array("x".utf8))
        #expect(one.iv != other.iv)
        #expect(one.ciphertext != other.ciphertext)
        #expect(one.digest != other.digest)
    }

    @Test(arguments: [3057, 3071, 3072])
    func `a text that fills the largest ciphertext is accepted`(_ count: Int) throws {
        let envelope = try Self.sealer().seal([UInt8](repeating: 0x41, count: count), iv: Self.iv)
        #expect(envelope.ciphertext.count == 3072)
    }

    @Test(arguments: [3073, 4096, 100_000])
    func `a text that is too long is rejected`(_ count: Int) throws {
        let sealer = try Self.sealer()
        let rejection = #expect(throws: Rejection.self) {
            try sealer.seal([UInt8](repeating: 0x41, count: count), iv: Self.iv)
        }
        #expect(rejection?.reason == Reason.ciphertextLength)
        #expect(rejection?.reason.rawValue == 104)
    }

    @Test func `a notification whose escapes make it too long is rejected`() throws {
        let sealer = try Self.sealer()
        let notification = BisqNotification(
            kind: .market, title: "", message: String(repeating: "=", count: 600), sentDate: 1)
        let rejection = #expect(throws: Rejection.self) { try sealer.seal(notification.json, iv: Self.iv) }
        #expect(rejection?.reason.rawValue == 104)
    }

    @Test func `an empty text is rejected`() throws {
        let sealer = try Self.sealer()
        let rejection = #expect(throws: Rejection.self) { try sealer.seal([], iv: Self.iv) }
        #expect(rejection?.reason.rawValue == 104)
    }

    @Test(arguments: ["", "123456789012345", "12345678901234567", "12345678|0123456", "12345678\n0123456"])
    func `an invalid IV is rejected`(_ iv: String) throws {
        let sealer = try Self.sealer()
        let rejection = #expect(throws: Rejection.self) { try sealer.seal(Array("x".utf8), iv: Array(iv.utf8)) }
        #expect(rejection?.reason.rawValue == 103)
    }

    // MARK: Helpers

    private static func sealer(key: String = SealerTests.key) throws -> Sealer {
        Sealer(try PairingToken("iOS|iPhone|\(key)|\(Self.token)"))
    }

    private static func base64(_ envelope: Envelope) -> String {
        String(decoding: Base64.encode(envelope.ciphertext), as: UTF8.self)
    }

    private static func delivered(_ envelope: Envelope) -> String {
        var output: [UInt8] = []
        envelope.appendDeliveredJSON(format: .pipe, messageMagic: Array("BisqMessageiOS".utf8), to: &output)
        return String(decoding: output, as: UTF8.self)
    }

    private static func open(_ envelope: Envelope) -> [UInt8]? {
        AES256CBC.decrypt(Array(envelope.ciphertext), key: Array(Self.key.utf8), iv: Array(envelope.iv))
    }
}
