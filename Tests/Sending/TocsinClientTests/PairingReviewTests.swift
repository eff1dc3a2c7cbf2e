// SPDX-License-Identifier: Apache-2.0

import Cryptography
import StandIns
import TNP
import TestSupport
import Testing

@testable import TocsinClient

@Suite(.tags(.sockets)) struct PairingReviewTests {
    private static let key = "aximqjxdRhe4HSxyh28m/FiIPlv8HEgV"
    private static let apple = "d45161df3d172837f1b83bb3e411d5a63120de6b435ff9235adb70d619d162a1"
    /// 163 characters, the present length of Google's tokens.
    private static let google = google(163)

    private static func google(_ length: Int) -> String {
        let letters = Array("bGrc9pTJdqzBgKYWQfP4I1g21rukjFpyKsjGCvFqnQl8owMqD_7-")
        let rest = (0..<length - 29).map { letters[$0 % letters.count] }
        return "cutUn7ZaTra9q3ayZG5vCQ:APA91b" + String(rest)
    }

    private static let phone = "iOS|iPhone 15|\(key)|\(apple)"
    private static let android = "android|Google Pixel 8|\(key)|\(google)"

    /// The apps that accept this text.
    private func acceptingApps(_ text: String) -> Set<PairingReview.App> {
        Set(PairingReview(text).compatibilities.filter(\.isAccepted).map(\.app))
    }

    private func remark(_ app: PairingReview.App, _ text: String) -> String {
        PairingReview(text).compatibilities.first { $0.app == app }?.remark ?? ""
    }

    private func hints(_ text: String) -> String { PairingReview(text).hints.joined(separator: "\n") }

    /// All texts of the review, one per line.
    private func allText(_ review: PairingReview) -> String {
        (review.parts.flatMap { [$0.name, $0.content, $0.fault ?? ""] } + review.hints
            + review.compatibilities.map { $0.remark ?? "" }).joined(separator: "\n")
    }

    @Test(arguments: [("BisqPhoneiOS", "iOS"), ("BisqPhoneiOSDev", "iOSDev"), ("bisqphoneandroid", "android")])
    func `a token with a magic of 2018 is recognised`(_ old: String, _ today: String) {
        let hints = hints("\(old)|\(Self.key)|\(Self.apple)")
        #expect(hints.contains("the magic of 2018") && hints.contains("today it is \(today),"))
        #expect(acceptingApps("\(old)|\(Self.key)|\(Self.apple)").isEmpty)
    }

    @Test func `a valid iPhone token has no faults and suits Tocsin, the desktop and bisqremote`() {
        for text in [Self.phone, Self.phone.replacing("iOS|", with: "iOSDev|")] {
            let review = PairingReview(text)
            #expect(review.parts.map(\.name) == ["magic", "descriptor", "key", "device token"])
            #expect(review.parts.map(\.fault) == [nil, nil, nil, nil])
            #expect(review.parts.dropFirst().map(\.content) == ["iPhone 15", "32 characters", "64 characters"])
            #expect(review.hints.isEmpty)
            #expect(acceptingApps(text) == [.tocsin, .bisqDesktop, .bisqremote])
            #expect(review.isAcceptedByTocsin)
            #expect(remark(.bisqAndroid, text) == "the magic is not android")
        }
    }

    @Test func `a handle in the place of the device token has a rule and a hint of its own`() {
        let handle = Handle.prefix + String(repeating: "7e", count: Handle.length)
        let android = PairingReview("android|Google Pixel 8|\(Self.key)|\(handle)")
        #expect(android.parts.map(\.name) == ["magic", "descriptor", "key", "handle"])
        #expect(android.parts.allSatisfy { $0.fault == nil } && android.hints.isEmpty)
        #expect(acceptingApps("android|Google Pixel 8|\(Self.key)|\(handle)") == [.tocsin, .bisqDesktop, .bisqAndroid])

        let iPhone = "iOS|iPhone 15|\(Self.key)|\(handle)"
        #expect(PairingReview(iPhone).parts.last?.fault == nil)
        #expect(hints(iPhone).contains("write android in place of iOS") && !hints(iPhone).contains("Google"))
        #expect(acceptingApps(iPhone) == [.tocsin])

        let short = PairingReview("android|Google Pixel 8|\(Self.key)|\(handle.dropLast())")
        #expect(short.parts.last?.fault == "must be handle: and 64 hexadecimal digits")
        #expect(!short.isAcceptedByTocsin)
    }

    @Test func `only bisqremote requires an Android device token of exactly 142 characters`() {
        #expect(acceptingApps(Self.android) == [.tocsin, .bisqDesktop, .bisqAndroid])
        #expect(remark(.bisqremote, Self.android).contains("has 163 characters; it must have exactly 142"))
        // As of 2018, without the APA91b of today.
        let old = "android|Pixel|\(Self.key)|\(Self.google(142).replacing("APA91b", with: "AAAAAb"))"
        #expect(acceptingApps(old) == [.tocsin, .bisqDesktop, .bisqAndroid, .bisqremote])
        for length in [141, 143] {
            #expect(!acceptingApps("android|Pixel|\(Self.key)|\(Self.google(length))").contains(.bisqremote))
        }
    }

    @Test func `the remark on Bisq 2 says that it registers itself and what it would accept`() {
        let iPhoneRemark = remark(.bisqConnect, Self.phone)
        #expect(iPhoneRemark.contains("does not use pairing tokens"))
        #expect(iPhoneRemark.contains("would accept this device token"))
        #expect(iPhoneRemark.contains("must be Base64 of 32 bytes, not of 24"))
        let long = Self.android.replacing(
            Self.key, with: String(decoding: Base64.encode([UInt8](1...32)), as: UTF8.self))
        // Bisq 1 does not accept such a key; Tocsin seals for it as Bisq 2 does.
        #expect(acceptingApps(long) == [.tocsin])
        #expect(remark(.bisqConnect, long).hasSuffix("would accept this device token and accept this key"))
        for (length, isAccepted) in [(99, false), (100, true), (300, true), (301, false)] {
            let text = "android|Pixel|\(Self.key)|\(Self.google(length))"
            #expect(remark(.bisqConnect, text).contains("would accept") == isAccepted)
        }
        #expect(remark(.bisqConnect, "nothing") == "Bisq 2 does not use pairing tokens: its app registers by itself")
    }

    @Test func `the desktop ignores trailing bars, and Tocsin rejects them`() {
        #expect(acceptingApps(Self.phone + "||") == [.bisqDesktop, .bisqremote])
        #expect(acceptingApps(Self.phone + "|x").isEmpty)
        let more = PairingReview(Self.phone + "|x").parts.last
        #expect(more?.name == "surplus" && more?.content == "1 part" && more?.fault != nil)
        #expect(acceptingApps("iOS|iPhone 15|\(Self.key)|").isEmpty)
        #expect(remark(.bisqDesktop, "iOS|iPhone 15|\(Self.key)|").contains("3 parts"))
        #expect(remark(.bisqDesktop, "|||").contains("0 parts"))
        #expect(acceptingApps("iOS||\(Self.key)|\(Self.apple)") == [.tocsin, .bisqDesktop, .bisqremote])
    }

    @Test func `the desktop accepts a non-hexadecimal device token, with a remark`() {
        let text = "iOS|iPhone 15|\(Self.key)|\(String(repeating: "z", count: 64))"
        #expect(acceptingApps(text) == [.bisqDesktop, .bisqremote])
        #expect(remark(.bisqDesktop, text).contains("not hexadecimal"))
        #expect(PairingReview(text).parts[3].fault == "must be hexadecimal digits only")
    }

    @Test func `each app applies its own length limits`() {
        func android(_ length: Int) -> String { "android|Pixel|\(Self.key)|\(String(repeating: "a", count: length))" }
        #expect(acceptingApps(android(31)).isEmpty)
        #expect(acceptingApps(android(32)) == [.tocsin, .bisqDesktop, .bisqAndroid])
        #expect(acceptingApps(android(512)) == [.tocsin, .bisqDesktop, .bisqAndroid])
        // Longer than the protocol allows.
        #expect(acceptingApps(android(513)) == [.bisqDesktop, .bisqAndroid])
        #expect(remark(.tocsin, android(513)).contains("1 to 512 bytes"))
        for text in ["iOS|iPhone 15|\(Self.key)|\(Self.apple.dropLast())", "iOS|iPhone 15|\(Self.key)|\(Self.apple)0"] {
            #expect(acceptingApps(text).isEmpty)
            #expect(remark(.bisqDesktop, text).contains("it must have 64"))
        }
        for text in ["iOS|iPhone 15|\(Self.key.dropLast())|\(Self.apple)", "iOS|iPhone 15|\(Self.key)0|\(Self.apple)"] {
            #expect(acceptingApps(text).isEmpty)
        }
    }

    @Test func `the desktop accepts a key of 32 characters and 33 bytes but cannot encrypt with it`() {
        let text = "android|Pixel|é\(Self.key.dropFirst())|\(Self.google)"
        #expect(acceptingApps(text) == [.bisqDesktop, .bisqAndroid])
        #expect(remark(.bisqDesktop, text).contains("cannot encrypt with a key of 33 bytes"))
        #expect(PairingReview(text).parts[2].content == "32 characters, 33 bytes")
    }

    @Test(arguments: [
        ("iPhone", true), ("iPhone ", true), ("iPhone  15", true), ("iPad", true), ("iPad  Pro", false),
        ("iPhone 15", false), ("iPhone14,5", false), ("", false), (" ", false), (" iPhone", false),
    ])
    func `a model name that stops the desktop is reported`(_ model: String, _ stops: Bool) {
        let text = "iOS|\(model)|\(Self.key)|\(Self.apple)"
        #expect(acceptingApps(text).contains(.bisqDesktop) != stops)
        #expect(acceptingApps(text).contains(.tocsin))
        #expect(remark(.bisqDesktop, text).contains("second word") == stops)
    }

    @Test func `the review accepts exactly what Tocsin accepts`() throws {
        var random = SplitMix64(seed: 5)
        let magics = ["iOS", "iOSDev", "android", "ios", "", "x"]
        let insertions: [Unicode.Scalar] = ["a", "0", "|", " ", "\u{301}", "é", "\n", "\u{0}", "😀"]
        var acceptedCount = 0
        for _ in 0..<3000 {
            let tokens = [
                Self.apple, Self.google, Self.apple.uppercased(), String(Self.apple.dropFirst(random.below(3))),
            ]
            var text = [
                magics[random.below(random.below(2) == 0 ? 3 : 6)], "iPhone 15",
                String(Self.key.dropFirst(random.below(8) / 7)), tokens[random.below(4)],
            ].joined(separator: "|")
            if random.below(2) == 0 {
                var scalars = Array(text.unicodeScalars)
                scalars.insert(insertions[random.below(insertions.count)], at: random.below(scalars.count + 1))
                text = String(String.UnicodeScalarView(scalars))
            }
            let envelope = try? Sealer(PairingToken(pasted: text)).seal([UInt8](repeating: 32, count: 16))
            let review = PairingReview(text)
            #expect(review.isAcceptedByTocsin == (envelope != nil), "\(text.debugDescription)")
            acceptedCount += envelope == nil ? 0 : 1
            // A text that Tocsin accepts has no fault.
            if review.isAcceptedByTocsin { #expect(review.parts.allSatisfy { $0.fault == nil }) }
        }
        #expect((300..<2700).contains(acceptedCount))
    }

    @Test(
        arguments: [
            ("", "the text is empty"), ("   ", "the text is empty"), (" \(phone)", "space before or after"),
            ("\(phone) ", "space before or after"), ("\"\(phone)\"", "quotation marks"),
            ("„\(phone)“", "quotation marks"),
            ("\(phone)\n", "line break"), (phone.replacing("161", with: "161\r\n"), "line break"),
            ("\u{FEFF}\(phone)", "invisible"), (phone.replacing("|", with: "│"), "│ instead of |"),
            (phone.replacing("|", with: "¦"), "¦ instead of |"), (phone.replacing("|", with: "｜"), "｜ instead of |"),
            (" " + phone.replacing("|", with: "│"), "│ instead of |"),
            (phone.replacing("|", with: "\\|"), "\\ before a bar"),
            (phone.replacing("|", with: "%7C"), "from a link"), ("iOS|iPhone 15|\(key)", "cut off"),
            ("iOS|iPhone 15", "cut off"),
            ("iOS|\(key)|\(apple)", "second part"), ("iPhone 15|\(key)|\(apple)", "first part"),
            (phone.replacing(key, with: key.dropLast()), "one character of the key is missing"),
            (phone.replacing(key, with: key + "x"), "one character too many"),
            (phone.replacing(key, with: key.replacing("/", with: "!")), "phones do not use"),
            (phone.replacing("iOS", with: "ios"), "written iOS"),
            (phone.replacing("iOS", with: "IOSDEV"), "written iOSDev"),
            (android.replacing("android", with: "Android"), "written android"), (phone + phone, "twice"),
            ("\(phone)\n\(phone)\n", "twice"), ("\(android) \(android)", "twice"),
            ("iOS|iPhone 15|\(key)|\(apple)\(apple)", "twice"), ("ab\(key.lowercased()).onion:80", "after --node"),
            (apple, "only the device token of an iPhone"), (google, "only the device token of an Android phone"),
            (key, "only the key"), ("hello", "magic|descriptor"),
            ("BisqMessageiOS|1234567890123456|AAAA", "an encrypted notification"),
            ("android|x|\(key)|\(apple)", "looks like Apple's"),
            ("iOS|x|\(key)|\(google)", "looks like Google's"), ("iOS|x|\(apple)|\(key)", "are swapped"),
        ] as [(String, String)])
    func `each common mistake gets its hint`(_ text: String, _ hint: String) {
        #expect(hints(text).contains(hint))
    }

    @Test func `of other apps only bisqremote accepts the magic in any letter case`() {
        #expect(acceptingApps(Self.phone.replacing("iOS", with: "ios")) == [.tocsin, .bisqremote])
    }

    @Test func `only Tocsin ignores a trailing line break`() {
        #expect(acceptingApps(Self.phone + "\n") == [.tocsin])
        #expect(acceptingApps(Self.android + "\n") == [.tocsin, .bisqDesktop, .bisqAndroid])
        #expect(remark(.bisqDesktop, Self.android + "\n").contains("whitespace"))
    }

    @Test func `no review text contains part of a key or device token`() {
        var random = SplitMix64(seed: 11)
        let secrets = [Self.key, Self.apple, Self.google]
        var texts = [Self.phone, Self.android] + secrets
        for _ in 0..<2000 {
            // Parts in any order and number, truncated, and joined by any separator.
            let parts = (0..<1 + random.below(6)).map { _ in
                let part = ["iOS", "android", "iPhone 15", Self.key, Self.apple, Self.google][random.below(6)]
                return String(part.dropLast(random.below(8) == 0 ? 1 : 0))
            }
            let bars = ["|", "│", " ", "\n", "\\|", "||"]
            texts.append(parts.joined(separator: bars[random.below(random.below(2) == 0 ? 1 : 6)]))
        }
        for text in texts {
            let output = allText(PairingReview(text))
            for secret in secrets {
                for start in stride(from: 0, to: secret.count - 12, by: 6) {
                    #expect(!output.contains(secret.dropFirst(start).prefix(12)))
                }
            }
        }
    }

    @Test func `a descriptor is shown without control characters, and hidden if it may be a key`() {
        func content(_ descriptor: String) -> String {
            PairingReview("iOS|\(descriptor)|\(Self.key)|\(Self.apple)").parts[1].content
        }
        #expect(content("Pixel\u{1B}[2K\u{202E} 8\r") == "Pixel[2K 8")
        #expect(content("Žluťoučký 8") == "Žluťoučký 8")
        #expect(content("") == "empty")
        #expect(content(Self.key) == "32 characters")
        #expect(content(String(repeating: "a b ", count: 17)) == "68 characters")
        #expect(content("sdk_gphone64_x86_64") == "sdk_gphone64_x86_64")
    }

    @Test func `a text of any length is reviewed within limits`() {
        let long = PairingReview(String(repeating: "|", count: PairingReview.maximumTextLength + 1))
        #expect(long.parts.isEmpty && long.compatibilities.isEmpty && !long.isAcceptedByTocsin)
        #expect(long.hints.first?.contains("\(PairingReview.maximumTextLength + 1)") == true)
        let full = PairingReview(String(repeating: "|", count: PairingReview.maximumTextLength))
        #expect(full.parts.count == 5)
        #expect(full.parts.last?.content == "\(PairingReview.maximumTextLength - 3) parts")
    }
}
