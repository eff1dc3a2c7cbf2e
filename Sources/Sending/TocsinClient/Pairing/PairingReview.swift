// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// A review of a text that should be a pairing token: its parts, their faults, and the apps that accept it, in words
/// for the person who pasted it. It contains only the lengths of the key and the device token.
public struct PairingReview: Sendable, Equatable {
    /// One of the parts of a pairing token, or the surplus after them.
    public struct Part: Sendable, Equatable {
        /// The name of the part.
        public let name: String
        /// A description of the content; for the key and the device token, only the length.
        public let content: String
        /// The fault of the part; `nil` if it has none.
        public let fault: String?
    }

    /// An app that reads pairing tokens, or whose phones register in another way.
    public enum App: String, Sendable, CaseIterable {
        /// The commands of Tocsin, such as `tocsin send`, which undo what mail programs and editors do to a text.
        case tocsin = "Tocsin"
        /// The desktops that pairing tokens were designed for.
        case bisqDesktop = "Bisq 1 desktop, Haveno"
        /// Bisq 1's app for Android, which also parses the pairing tokens that it creates.
        case bisqAndroid = "Bisq 1 app, Android"
        /// The tool of Bisq's developers.
        case bisqremote = "bisqremote tool"
        /// Bisq 2's app.
        case bisqConnect = "Bisq Connect, Bisq 2"
    }

    /// Whether one app accepts the text.
    public struct Compatibility: Sendable, Equatable {
        /// The app.
        public let app: App
        /// Whether the app accepts the text.
        public let isAccepted: Bool
        /// Why the app rejects the text, or what goes wrong later although it accepts it; `nil` if there is no remark.
        public let remark: String?
    }

    /// The largest text that is reviewed, in bytes of UTF-8. A pairing token has a few hundred.
    public static let maximumTextLength = PastedToken.maximumLength

    /// The parts in their order, and the surplus if there is one; empty if the text is too long.
    public let parts: [Part]
    /// Probable causes of the faults, and what to do about them.
    public let hints: [String]
    /// One result for each app; empty if the text is too long.
    public let compatibilities: [Compatibility]

    /// Whether `tocsin send` accepts the text.
    public var isAcceptedByTocsin: Bool { compatibilities.contains { $0.app == .tocsin && $0.isAccepted } }

    /// Reviews a text as it was pasted.
    public init(_ text: String) {
        guard text.utf8.count <= Self.maximumTextLength else {
            parts = []
            hints = ["this is not a pairing token: it has \(text.utf8.count) bytes, a pairing token a few hundred"]
            compatibilities = []
            return
        }
        let undamaged = try? PastedToken.read(text).text
        let oneLine = text.split(whereSeparator: \.isNewline).joined()
        parts = Self.parts(PairingFields(undamaged ?? oneLine))
        // Damage that Tocsin undoes is no fault of a part.
        hints = undamaged == nil || undamaged == oneLine ? Self.hints(text) : Self.hints(undoing: text)
        compatibilities = App.allCases.map { Self.compatibility(of: $0, text) }
    }

    /// The number of parts of a pairing token, and of one for Web Push.
    private static let (partCount, webPartCount) = (4, 6)

    private static func publicKeyFault(_ text: String) -> String? {
        guard let point = Base64.decodeURLSafe(Array(text.utf8)), P256.isPublicKey(point) else {
            return "must be a public key of P-256 in Base64url"
        }
        return nil
    }

    private static func secretFault(_ text: String) -> String? {
        Base64.decodeURLSafe(Array(text.utf8))?.count == WebPushContent.secretLength
            ? nil : "must be \(WebPushContent.secretLength) bytes in Base64url"
    }

    private static func parts(_ pieces: PairingFields) -> [Part] {
        let all = pieces.all
        func part(_ index: Int, _ name: String, _ look: (String) -> (String, String?)) -> Part {
            guard index < all.count else { return Part(name: name, content: "–", fault: "missing") }
            let (content, fault) = look(all[index])
            return Part(name: name, content: content, fault: fault)
        }
        let magic = Magic(rawValue: all[0])
        let isSubscription = magic?.isSubscription == true
        let expected = isSubscription ? webPartCount : partCount
        var parts = [
            part(0, "magic") { text in
                magic.map { ("\($0.rawValue): \($0.vendor)", nil) }
                    ?? (text.lengthDescription, "must be iOS, iOSDev, android or web")
            },
            part(1, "descriptor") { (descriptor($0, isInPlace: all.count == expected), nil) },
            part(2, "key") { text in
                let (count, length) = (text.utf8.count, text.lengthDescription)
                if count == PairingToken.keyLength { return (length, nil) }
                if Base64.decodeSecret(Array(text.utf8))?.count == PairingToken.keyLength {
                    return ("\(length), Base64 of \(PairingToken.keyLength) bytes: for a sealed app", nil)
                }
                return (length, "must be \(PairingToken.keyLength) bytes, not \(count)")
            },
            namesHandle(all)
                ? part(3, "handle") { ($0.lengthDescription, handleFault($0)) }
                : part(3, isSubscription ? "push endpoint" : "device token") {
                    ($0.lengthDescription, DeviceTokenForm.fault($0, of: magic ?? .android))
                },
        ]
        if isSubscription {
            parts += [
                part(4, "public key (p256dh)") { ($0.lengthDescription, publicKeyFault($0)) },
                part(5, "secret (auth)") { ($0.lengthDescription, secretFault($0)) },
            ]
        }
        if all.count > expected {
            let many = all.count - expected
            parts.append(
                Part(
                    name: "surplus", content: many == 1 ? "1 part" : "\(many) parts",
                    fault: "more than \(expected == partCount ? "four" : "six") parts"))
        }
        return parts
    }

    /// Returns the descriptor, but only its length if it is out of place or looks like a key or a device token, which have
    /// no spaces.
    private static func descriptor(_ text: String, isInPlace: Bool) -> String {
        if text.isEmpty { return "empty" }
        let longestWord = text.split(separator: " ").map(\.unicodeScalars.count).max() ?? 0
        guard isInPlace, longestWord < 24, text.unicodeScalars.count <= 64 else { return text.lengthDescription }
        let printable = text.unicodeScalars.filter { ![.control, .format].contains($0.properties.generalCategory) }
        return String(String.UnicodeScalarView(printable))
    }

    /// Whether a handle is in the place of the device token.
    static func namesHandle(_ pieces: [String]) -> Bool { pieces.count > 3 && pieces[3].hasPrefix(Handle.prefix) }

    private static func handleFault(_ text: String) -> String? {
        Handle(text: text) == nil ? "must be \(Handle.prefix) and \(2 * Handle.length) hexadecimal digits" : nil
    }
}
