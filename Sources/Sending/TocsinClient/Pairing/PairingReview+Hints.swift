// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// Hints for common mistakes in copying a pairing token from the phone.
extension PairingReview {
    static func hints(_ text: String) -> [String] {
        let bare = bare(text)
        guard !bare.isEmpty else {
            return ["the text is empty: a pairing token is the text of the QR code that the phone's app shows"]
        }
        var hints = around(text)
        if isTwice(bare) {
            hints.append(twice)
            return hints
        }
        let pieces = PairingFields(bare).all
        let bars = foreignBars(bare, pieces)
        // If other characters are used as bars, the text splits differently, and hints about its parts would be wrong.
        guard bars.isEmpty else { return hints + bars }
        hints += pieces.count == 1 ? somethingElse(bare) : missing(pieces) + inside(pieces)
        return hints
    }

    /// Hints for a damaged text from which Tocsin restores a valid pairing token.
    static func hints(undoing text: String) -> [String] {
        let bare = bare(text)
        let pieces = PairingFields(bare).all
        return around(text) + (isTwice(bare) ? [twice] : foreignBars(bare, pieces) + magicCase(pieces)) + [
            "Tocsin undoes what mail programs, editors and web pages do to a pairing token; other apps need the text as the phone shows it"
        ]
    }

    private static let twice = "the text contains the pairing token twice: remove one copy"

    private static func magicCase(_ pieces: [String]) -> [String] {
        guard let magic = Magic(anyCase: pieces[0]), magic.rawValue != pieces[0] else { return [] }
        return ["the magic must be written \(magic.rawValue), with these upper-case and lower-case letters"]
    }

    private static let quotes = Set(PastedToken.quotes.map { Character($0) })

    private static func isInvisible(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.generalCategory == .format
    }

    /// The text without invisible characters, and without whitespace and quotation marks around it.
    private static func bare(_ text: String) -> String {
        let visible = String(String.UnicodeScalarView(text.unicodeScalars.filter { !isInvisible($0) }))
        func isWrapping(_ character: Character) -> Bool { character.isWhitespace || quotes.contains(character) }
        let tail = visible.drop(while: isWrapping)
        return String(tail.prefix(upTo: tail.lastIndex { !isWrapping($0) }.map(tail.index(after:)) ?? tail.startIndex))
    }

    private static func around(_ text: String) -> [String] {
        var hints: [String] = []
        let ends = [text.first, text.last].compactMap { $0 }
        if text.contains(where: \.isNewline) {
            hints.append("the text contains a line break: Tocsin ignores it, but other apps do not; remove it")
        }
        if ends.contains(where: { $0.isWhitespace && !$0.isNewline }) {
            hints.append("there is a space before or after the pairing token: remove the space")
        }
        if ends.contains(where: quotes.contains) {
            hints.append("there are quotation marks around the pairing token: remove them")
        }
        if text.unicodeScalars.contains(where: isInvisible) {
            hints.append("the text contains invisible characters: scan the QR code, or retype the text around them")
        }
        return hints
    }

    private static func isTwice(_ text: String) -> Bool {
        let scalars = Array(text.unicodeScalars)
        // The copies may have up to two characters of whitespace between them.
        for gap in 0...2 where (scalars.count - gap).isMultiple(of: 2) {
            let half = (scalars.count - gap) / 2
            guard half > PairingToken.keyLength, scalars[..<half].contains("|") else { continue }
            if scalars[..<half] == scalars[(half + gap)...],
                scalars[half..<half + gap].allSatisfy(\.properties.isWhitespace)
            {
                return true
            }
        }
        return false
    }

    private static func foreignBars(_ text: String, _ pieces: [String]) -> [String] {
        if pieces.dropLast().contains(where: { $0.hasSuffix("\\") }) {
            return ["there is a \\ before a bar: remove it"]
        }
        guard pieces.count < 4 else { return [] }
        if let bar = text.unicodeScalars.first(where: PastedToken.bars.contains) {
            return ["the text contains \(bar) instead of |: replace each \(bar) with |"]
        }
        if text.lowercased().contains("%7c") {
            return ["the text contains %7C instead of |, because it was copied from a link: replace each %7C with |"]
        }
        return []
    }

    /// Hints for a text without a bar, which may be something other than a pairing token.
    private static func somethingElse(_ text: String) -> [String] {
        let form = "a pairing token is magic|descriptor|key|device token, as in the phone's QR code"
        if text.lowercased().contains(".onion") {
            return ["this is an onion address: the address of a node belongs after --node; \(form)"]
        }
        if text.isHexadecimal, text.utf8.count == PairingToken.appleTokenLength {
            return ["this looks like only the device token of an iPhone; \(form)"]
        }
        if text.utf8.count >= 100, !text.containsWhitespace {
            return ["this looks like only the device token of an Android phone; \(form)"]
        }
        if text.hasOnlyBase64Characters, text.utf8.count == PairingToken.keyLength {
            return ["this looks like only the key; \(form)"]
        }
        return [form]
    }

    private static func looksLikeKey(_ text: String) -> Bool {
        (PairingToken.keyLength - 1...PairingToken.keyLength + 1).contains(text.utf8.count)
            && text.hasOnlyBase64Characters
    }

    /// The magics of Bisq's wiki and of the first apps (2018), with the magics that replaced them.
    private static let oldMagics: [(old: String, today: Magic)] = [
        ("BisqPhoneiOS", .iOS), ("BisqPhoneiOSDev", .iOSDev), ("BisqPhoneAndroid", .android),
    ]

    private static func missing(_ pieces: [String]) -> [String] {
        if let (old, today) = oldMagics.first(where: { $0.old.lowercased() == pieces[0].lowercased() }) {
            return [
                "\(old) is the magic of 2018, as in Bisq's old wiki; today it is \(today.rawValue), followed by a "
                    + "descriptor: install the current version of the phone's app and pair again"
            ]
        }
        if pieces[0].hasSuffix("MessageiOS") || pieces[0].hasSuffix("MessageAndroid") {
            return ["this is an encrypted notification to a phone, not a pairing token"]
        }
        guard pieces.count < 4 else { return [] }
        guard pieces.count == 3, looksLikeKey(pieces[1]) else {
            return ["parts are missing at the end: the text was cut off; copy the whole pairing token"]
        }
        return Magic(anyCase: pieces[0]) == nil
            ? ["the first part seems to be missing: iOS, iOSDev, android or web, and a bar"]
            : ["the second part seems to be missing: it may be empty, but the bars on both sides are required"]
    }

    /// Hints for mistakes in the parts that are present.
    private static func inside(_ pieces: [String]) -> [String] {
        var hints = magicCase(pieces)
        let magic = Magic(anyCase: pieces[0])
        guard pieces.count >= 4 else { return hints }
        let (key, token) = (pieces[2], pieces[3])
        switch key.utf8.count - PairingToken.keyLength {
        case 4..<PairingToken.base64KeyLength - PairingToken.keyLength + 4 where key.hasOnlyBase64Characters:
            if key.utf8.count != PairingToken.base64KeyLength
                || Base64.decodeSecret(Array(key.utf8))?.count != PairingToken.keyLength
            {
                hints.append(
                    "a key in Base64 encodes \(PairingToken.keyLength) bytes: \(PairingToken.base64KeyLength) characters"
                )
            }
        case -1: hints.append("one character of the key is missing: copy it again, or scan the QR code")
        case 1: hints.append("the key has one character too many: copy it again, or scan the QR code")
        case 0 where !key.hasOnlyBase64Characters:
            hints.append("the key contains characters that phones do not use: only letters, digits, + and / are valid")
        default: break
        }
        if namesHandle(pieces) {
            if let magic, magic.isApple {
                hints.append(
                    "for the desktops of Bisq 1 and Haveno, write android in place of \(magic.rawValue): the handle tells "
                        + "the node which phone it is")
            }
            return hints
        }
        let looksApple = token.utf8.count == PairingToken.appleTokenLength && token.isHexadecimal
        if let magic, !magic.isApple, !magic.isSubscription, looksApple {
            hints.append("the device token looks like Apple's: should the magic be iOS?")
        }
        if let magic, magic.isApple, !looksApple {
            if token.contains(":") {
                hints.append("the device token looks like Google's: should the magic be android?")
            }
            if token.utf8.count == 2 * PairingToken.appleTokenLength, token.isHexadecimal {
                hints.append(
                    "the device token is twice as long as it should be: it was pasted twice, or encoded in hexadecimal twice"
                )
            }
        }
        if looksLikeKey(token), key.isHexadecimal || key.contains(":"), key.utf8.count >= PairingToken.appleTokenLength
        {
            hints.append("the key and the device token are swapped")
        }
        return hints
    }
}
