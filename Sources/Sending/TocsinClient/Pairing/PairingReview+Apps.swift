// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// The rules of each app, in the order in which the app checks them.
extension PairingReview {
    private static let desktopKeyLength = 32

    /// Why an app rejects a text.
    private struct Refusal: Error { let remark: String }

    /// Whether an app accepts a text.
    static func compatibility(of app: App, _ text: String) -> Compatibility {
        do throws(Refusal) {
            let remark: String? =
                switch app {
                case .tocsin: try tocsin(text)
                case .bisqDesktop: try bisqDesktop(PairingFields(text))
                case .bisqAndroid: try bisqAndroid(PairingFields(text))
                case .bisqremote: try bisqremote(PairingFields(text))
                case .bisqConnect: try bisqConnect(PairingFields(text))
                }
            return Compatibility(app: app, isAccepted: true, remark: remark)
        } catch {
            return Compatibility(app: app, isAccepted: false, remark: error.remark)
        }
    }

    private static func tocsin(_ text: String) throws(Refusal) -> String? {
        do {
            // An envelope has further rules for the device token.
            _ = try Sealer(PairingToken(pasted: text)).seal([UInt8](repeating: UInt8(ascii: " "), count: 16))
            return nil
        } catch {
            throw Refusal(remark: "\(error)")
        }
    }

    private static func bisqDesktop(_ pieces: PairingFields) throws(Refusal) -> String? {
        let (key, token) = try keyAndToken(pieces)
        guard let magic = Magic(rawValue: pieces.java[0]) else {
            throw Refusal(remark: "the magic is not iOS, iOSDev or android, in exactly this spelling")
        }
        guard !magic.isSubscription else { throw Refusal(remark: "it knows no Web Push") }
        guard magic.isApple ? token.javaLength == 64 : token.javaLength >= 32 else {
            throw wrongLength(token, magic.isApple ? "64" : "at least 32")
        }
        guard !stopsDesktop(pieces.java[1]) else {
            throw Refusal(remark: "it stops with an error if the descriptor is iPhone or iPad without a second word")
        }
        return consequence(magic, key: key, token: token)
    }

    private static func bisqAndroid(_ pieces: PairingFields) throws(Refusal) -> String? {
        let (key, token) = try keyAndToken(pieces)
        guard token.javaLength >= 32 else { throw wrongLength(token, "at least 32") }
        guard pieces.java[0] == Magic.android.rawValue else { throw Refusal(remark: "the magic is not android") }
        return consequence(.android, key: key, token: token)
    }

    private static func bisqremote(_ pieces: PairingFields) throws(Refusal) -> String? {
        let (key, token) = try keyAndToken(pieces)
        guard let magic = Magic(anyCase: pieces.java[0]) else {
            throw Refusal(remark: "the magic is not iOS, iOSDev or android")
        }
        guard !magic.isSubscription else { throw Refusal(remark: "it knows no Web Push") }
        let length = magic.isApple ? 64 : 142
        guard token.javaLength == length else { throw wrongLength(token, "exactly \(length)") }
        return consequence(magic, key: key, token: token)
    }

    private static func bisqConnect(_ pieces: PairingFields) throws(Refusal) -> String? {
        var remark = "Bisq 2 does not use pairing tokens: its app registers by itself"
        if pieces.java.count == 4 {
            let (key, token) = (pieces.java[2], pieces.java[3])
            let isApple = Magic(anyCase: pieces.java[0]).map(\.isApple) ?? token.isHexadecimal
            let tokenFits =
                isApple ? token.javaLength == 64 && token.isHexadecimal : (100...300).contains(token.javaLength)
            remark += "; its registration would " + (tokenFits ? "accept" : "reject") + " this device token"
            switch Base64.decodeSecret(Array(key.utf8))?.count {
            case 32: remark += " and accept this key"
            case let count?: remark += " and reject this key: it must be Base64 of 32 bytes, not of \(count)"
            case nil: remark += " and reject this key: it must be Base64 of 32 bytes, but is not Base64"
            }
        }
        throw Refusal(remark: remark)
    }

    /// Makes the checks common to all apps that split the text as Java does; returns the key and the device token.
    private static func keyAndToken(_ pieces: PairingFields) throws(Refusal) -> (key: String, token: String) {
        let count = pieces.java.count
        guard count == 4 else {
            throw Refusal(remark: "it finds \(count == 1 ? "1 part" : "\(count) parts") instead of 4")
        }
        let length = pieces.java[2].javaLength
        guard length == desktopKeyLength else {
            throw Refusal(remark: "the key has \(length) characters instead of \(desktopKeyLength)")
        }
        return (pieces.java[2], pieces.java[3])
    }

    private static func wrongLength(_ token: String, _ right: String) -> Refusal {
        Refusal(remark: "the device token has \(token.javaLength) characters; it must have \(right)")
    }

    /// Whether the desktop crashes on this descriptor: it uses the model's second word without checking that there is one.
    private static func stopsDesktop(_ descriptor: String) -> Bool {
        var words = descriptor.unicodeScalars.split(separator: " ", omittingEmptySubsequences: false)
        while words.last?.isEmpty == true { words.removeLast() }
        switch words.first.map({ String($0) }) {
        case "iPhone": return words.count < 2 || words[1].isEmpty
        case "iPad": return words.count < 2
        default: return false
        }
    }

    /// What goes wrong with a pairing that an app accepts although it should not; `nil` for a correct one.
    private static func consequence(_ magic: Magic, key: String, token: String) -> String? {
        let service = magic.isApple ? "Apple" : "Google"
        if key.utf8.count != desktopKeyLength { return "but cannot encrypt with a key of \(key.utf8.count) bytes" }
        if token.containsWhitespace {
            return "but the device token contains whitespace: \(service) will not recognise it"
        }
        if magic.isApple, !token.isHexadecimal {
            return "but the device token is not hexadecimal: Apple will not recognise it"
        }
        return nil
    }
}

extension Magic {
    /// Parses a magic in upper-case, lower-case or mixed letters.
    init?(anyCase text: String) {
        let magic = Magic.allCases.first { $0.rawValue.lowercased() == text.lowercased() }
        guard let magic else { return nil }
        self = magic
    }
}
