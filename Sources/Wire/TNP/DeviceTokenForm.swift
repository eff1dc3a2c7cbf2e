// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// Finds damaged device tokens in text that a person has pasted. Apple and Google issue a narrower form than the
/// protocol allows (PROTOCOL §3), but neither promises it, so a node must not apply these rules.
package enum DeviceTokenForm {
    /// The number of characters after the colon of a Google device token whose second half begins with `APA91b`, as
    /// Google has issued them since 2015.
    static let googleLength = 140

    /// Why a device token that conforms to the protocol is damaged all the same: its platform issues none of this form.
    /// `nil` if it may be whole.
    package static func doubt(_ token: String, of magic: Magic) -> String? {
        guard magic == .android else { return nil }
        let isEndpoint = token.hasPrefix("https://") || token.hasPrefix("http://")
        let foreign = token.unicodeScalars.first { isEndpoint ? !("!"..."~").contains($0) : !isGoogles($0) }
        if let foreign {
            let code = String(foreign.value, radix: 16, uppercase: true)
            return
                "the device token contains \(foreign) (U+\(String(repeating: "0", count: max(0, 4 - code.count)))\(code)), "
                + "which Google does not use: a mail program or an editor may have put it in place of another character; "
                + "copy the pairing token again"
        }
        guard let part = partAfterColon(token), part.count < googleLength else { return nil }
        return
            "the device token was cut off: after the colon, Google's have \(googleLength) characters, this one "
            + "\(part.count); copy the whole pairing token"
    }

    /// Why a device token that was repaired from a damaged text is not whole; `nil` if it may be.
    package static func cut(_ token: String, of magic: Magic) -> String? {
        let length = PairingToken.appleTokenLength
        guard magic.isApple, !token.isEmpty, token.utf8.count < length else { return nil }
        return
            "the device token was cut off: Apple's have \(length) digits, this one \(token.utf8.count); copy the whole "
            + "pairing token"
    }

    static func partAfterColon(_ token: String) -> Substring? {
        token.wholeMatch(of: /[A-Za-z0-9_-]+:(APA91b[A-Za-z0-9_-]*)/)?.1
    }

    private static func isGoogles(_ scalar: Unicode.Scalar) -> Bool {
        scalar.isASCII
            && (Character(scalar).isLetter || Character(scalar).isNumber || "_:-".unicodeScalars.contains(scalar))
    }
}
