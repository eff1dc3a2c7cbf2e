// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// What a text that should be a pairing token is made of, what is wrong with it, and which apps would take it, in words
/// for the person who pasted it. Keeps and says nothing of key and device token but how long they are.
public struct PairingReview: Sendable, Equatable {
    /// One of the four parts, or what is too many.
    public struct Part: Sendable, Equatable {
        /// Which it is.
        public let name: String
        /// What stands there; of key and device token the length.
        public let content: String
        /// What is wrong with it; nil: nothing.
        public let fault: String?
    }

    /// Who reads pairing tokens, or what phones register with instead.
    public enum App: String, Sendable, CaseIterable {
        /// `tocsin send` and the others, which leave line ends out.
        case tocsin = "Tocsin"
        /// The desktops that pairing tokens were made for.
        case bisqDesktop = "Bisq 1 desktop, Haveno"
        /// The app, which reads its own token back.
        case bisqAndroid = "Bisq 1 app, Android"
        /// The developers' tool.
        case bisqremote = "bisqremote tool"
        /// The app of Bisq 2.
        case bisqConnect = "Bisq Connect, Bisq 2"
    }

    /// What an app makes of the text.
    public struct AttemptResult: Sendable, Equatable {
        public let app: App
        public let takesIt: Bool
        /// Why it refuses it, or what comes of it where it takes what it should not; nil: nothing to say.
        public let remark: String?
    }

    /// The most bytes that are looked at. A pairing token has some hundred.
    public static let longestText = 4096

    /// The four in their order, and what is too many; empty where the text is too long to look at.
    public let parts: [Part]
    /// What probably happened, and what to do.
    public let hints: [String]
    /// One for each app; empty where the text is too long to look at.
    public let attemptResults: [AttemptResult]

    /// Whether `tocsin send` can ring the phone.
    public var isTakenByTocsin: Bool { attemptResults.contains { $0.app == .tocsin && $0.takesIt } }

    /// Looks at a text as it was pasted.
    public init(_ text: String) {
        guard text.utf8.count <= Self.longestText else {
            parts = []
            hints = ["a pairing token has some hundred bytes, and this has \(text.utf8.count): it is something else"]
            attemptResults = []
            return
        }
        let oneLine = text.split(whereSeparator: \.isNewline).joined()
        parts = Self.parts(PairingFields(oneLine))
        hints = Self.hints(text)
        attemptResults = App.allCases.map { app in
            switch app {
            case .tocsin: Self.tocsin(oneLine)
            case .bisqDesktop: Self.bisqDesktop(PairingFields(text))
            case .bisqAndroid: Self.bisqAndroid(PairingFields(text))
            case .bisqremote: Self.bisqremote(PairingFields(text))
            case .bisqConnect: Self.bisqConnect(PairingFields(text))
            }
        }
    }

    private static func parts(_ pieces: PairingFields) -> [Part] {
        let all = pieces.all
        func part(_ index: Int, _ name: String, _ look: (String) -> (String, String?)) -> Part {
            guard index < all.count else { return Part(name: name, content: "–", fault: "it is missing") }
            let (content, fault) = look(all[index])
            return Part(name: name, content: content, fault: fault)
        }
        let magic = Magic(rawValue: all[0])
        var parts = [
            part(0, "magic") { text in
                switch magic {
                case .iOS: ("iOS: Apple, production", nil)
                case .iOSDev: ("iOSDev: Apple, development", nil)
                case .android: ("android: Google", nil)
                case nil: (text.lengthInWords, "it is none of iOS, iOSDev and android")
                }
            },
            part(1, "descriptor") { (descriptor($0, isInPlace: all.count == 4), nil) },
            part(2, "key") { text in
                let count = text.utf8.count
                if count == PairingToken.keyLength { return (text.lengthInWords, nil) }
                if Base64.decode(Array(text.utf8))?.count == PairingToken.keyLength {
                    return ("\(text.lengthInWords), Base64 of \(PairingToken.keyLength) bytes: a sealed app's", nil)
                }
                return (text.lengthInWords, "it has \(count) bytes instead of \(PairingToken.keyLength)")
            },
            part(3, "device token") { ($0.lengthInWords, deviceTokenFault($0, magic)) },
        ]
        if all.count > 4 {
            let many = all.count - 4
            parts.append(
                Part(name: "more", content: many == 1 ? "1 part" : "\(many) parts", fault: "there must be four parts"))
        }
        return parts
    }

    /// A descriptor is shown where it is one: neither out of place nor like a key or a device token, which have no
    /// spaces.
    private static func descriptor(_ text: String, isInPlace: Bool) -> String {
        if text.isEmpty { return "empty" }
        let longestWord = text.split(separator: " ").map(\.unicodeScalars.count).max() ?? 0
        guard isInPlace, longestWord < 24, text.unicodeScalars.count <= 64 else { return text.lengthInWords }
        let printable = text.unicodeScalars.filter { ![.control, .format].contains($0.properties.generalCategory) }
        return String(String.UnicodeScalarView(printable))
    }

    private static func deviceTokenFault(_ text: String, _ magic: Magic?) -> String? {
        switch magic {
        case .iOS, .iOSDev:
            guard text.utf8.count == PairingToken.appleTokenLength else {
                return "it has \(text.utf8.count) bytes instead of \(PairingToken.appleTokenLength)"
            }
            return text.isHexadecimal ? nil : "Apple's has hexadecimal digits only"
        case .android, nil:
            guard text.utf8.count >= PairingToken.shortestGoogleToken else {
                return "it has \(text.utf8.count) bytes, fewer than \(PairingToken.shortestGoogleToken)"
            }
            return text.holdsWhiteSpace ? "there is white space in it" : nil
        }
    }
}
