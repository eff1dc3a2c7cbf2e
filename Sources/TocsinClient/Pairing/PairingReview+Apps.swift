// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// The rules of each app, in the order in which the app checks them.
extension PairingReview {
    private static let desktopKeyLength = 32

    static func tocsin(_ text: String) -> Compatibility {
        do throws(PairingToken.FormatError) {
            let sealer = Sealer(try PairingToken(text))
            do {
                // An envelope has further rules for the device token.
                _ = try sealer.seal([UInt8](repeating: UInt8(ascii: " "), count: 16))
            } catch {
                return Compatibility(app: .tocsin, isAccepted: false, remark: error.text)
            }
            return Compatibility(app: .tocsin, isAccepted: true, remark: nil)
        } catch {
            return Compatibility(app: .tocsin, isAccepted: false, remark: error.description)
        }
    }

    static func bisqDesktop(_ pieces: PairingFields) -> Compatibility {
        func refuses(_ why: String) -> Compatibility {
            Compatibility(app: .bisqDesktop, isAccepted: false, remark: why)
        }
        if let why = wrongShape(pieces) { return refuses(why) }
        let (descriptor, key, token) = (pieces.java[1], pieces.java[2], pieces.java[3])
        guard let magic = Magic(rawValue: pieces.java[0]) else {
            return refuses("the magic is not iOS, iOSDev or android, in exactly this spelling")
        }
        switch magic {
        case .iOS, .iOSDev:
            guard token.javaLength == 64 else { return refuses(wrongLength(token, "64")) }
        case .android:
            guard token.javaLength >= 32 else { return refuses(wrongLength(token, "at least 32")) }
        }
        guard !stopsDesktop(descriptor) else {
            return refuses(
                "it stops with an error if the descriptor is iPhone or iPad without a second word")
        }
        return Compatibility(app: .bisqDesktop, isAccepted: true, remark: consequence(magic, key: key, token: token))
    }

    static func bisqAndroid(_ pieces: PairingFields) -> Compatibility {
        func refuses(_ why: String) -> Compatibility {
            Compatibility(app: .bisqAndroid, isAccepted: false, remark: why)
        }
        if let why = wrongShape(pieces) { return refuses(why) }
        let (key, token) = (pieces.java[2], pieces.java[3])
        guard token.javaLength >= 32 else { return refuses(wrongLength(token, "at least 32")) }
        guard pieces.java[0] == Magic.android.rawValue else { return refuses("the magic is not android") }
        return Compatibility(app: .bisqAndroid, isAccepted: true, remark: consequence(.android, key: key, token: token))
    }

    static func bisqremote(_ pieces: PairingFields) -> Compatibility {
        func refuses(_ why: String) -> Compatibility { Compatibility(app: .bisqremote, isAccepted: false, remark: why) }
        if let why = wrongShape(pieces) { return refuses(why) }
        let (key, token) = (pieces.java[2], pieces.java[3])
        guard let magic = Magic(anyCase: pieces.java[0]) else {
            return refuses("the magic is not iOS, iOSDev or android")
        }
        let length = magic == .android ? 142 : 64
        guard token.javaLength == length else { return refuses(wrongLength(token, "exactly \(length)")) }
        return Compatibility(app: .bisqremote, isAccepted: true, remark: consequence(magic, key: key, token: token))
    }

    static func bisqConnect(_ pieces: PairingFields) -> Compatibility {
        var remark = "Bisq 2 does not use pairing tokens: its app registers by itself"
        if pieces.java.count == 4 {
            let (key, token) = (pieces.java[2], pieces.java[3])
            let isApple = Magic(anyCase: pieces.java[0]).map { $0 != .android } ?? token.isHexadecimal
            let tokenFits =
                isApple ? token.javaLength == 64 && token.isHexadecimal : (100...300).contains(token.javaLength)
            remark += "; its registration would " + (tokenFits ? "accept" : "reject") + " this device token"
            switch Base64.decode(Array(key.utf8))?.count {
            case 32: remark += " and accept this key"
            case let count?: remark += " and reject this key: it must be Base64 of 32 bytes, not of \(count)"
            case nil: remark += " and reject this key: it must be Base64 of 32 bytes, but is not Base64"
            }
        }
        return Compatibility(app: .bisqConnect, isAccepted: false, remark: remark)
    }

    /// Makes the checks common to all apps that split the text as Java does; returns the fault, or `nil`.
    private static func wrongShape(_ pieces: PairingFields) -> String? {
        let count = pieces.java.count
        guard count == 4 else { return "it finds \(count == 1 ? "1 part" : "\(count) parts") instead of 4" }
        let length = pieces.java[2].javaLength
        guard length == desktopKeyLength else {
            return "the key has \(length) characters instead of \(desktopKeyLength)"
        }
        return nil
    }

    private static func wrongLength(_ token: String, _ right: String) -> String {
        "the device token has \(token.javaLength) characters; it must have \(right)"
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
        let service = magic == .android ? "Google" : "Apple"
        if key.utf8.count != desktopKeyLength { return "but cannot encrypt with a key of \(key.utf8.count) bytes" }
        if token.containsWhitespace {
            return "but the device token contains whitespace: \(service) will not recognise it"
        }
        if magic != .android, !token.isHexadecimal {
            return "but the device token is not hexadecimal: Apple will not recognise it"
        }
        return nil
    }
}

extension Magic {
    /// Parses a magic in upper-case, lower-case or mixed letters.
    init?(anyCase text: String) {
        guard let magic = Magic.allCases.first(where: { $0.rawValue.lowercased() == text.lowercased() }) else {
            return nil
        }
        self = magic
    }
}
