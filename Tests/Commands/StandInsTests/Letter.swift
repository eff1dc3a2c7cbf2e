// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Testing

@testable import StandIns

/// Seals notifications for a phone as a sender does, with code of its own.
struct Letter {
    static let key = "A4C595428CAA4C768F60AE7EBFF85852"
    static let iv = "293a4b5c6d7e4f90"

    /// A clear text in the format of Bisq 1.
    static func trade(title: String = "Stav obchodu", message: String = "Obchod je dokončen ✓", type: String = "TRADE")
        -> String
    {
        """
        {"sentDate":1533218519000,"txId":"29384203","title":"\(title)","message":"\(message)",\
        "type":"\(type)","actionRequired":"","version":1}
        """
    }

    /// A clear text in the format of Bisq Connect.
    static func connect(id: String = "7f3a", title: String = "Obchod", message: String = "Kupující zahájil platbu")
        -> String
    {
        #"{"id":"\#(id)","title":"\#(title)","message":"\#(message)","category":"trade_update"}"#
    }

    /// AES-256-CBC, padded with spaces to whole blocks.
    static func ciphertext(_ clearText: String, key: [UInt8] = Array(key.utf8)) throws -> [UInt8] {
        var padded = Array(clearText.utf8)
        while !padded.count.isMultiple(of: 16) { padded.append(UInt8(ascii: " ")) }
        return try #require(AES256CBC.encrypt(padded, key: key, iv: Array(iv.utf8)))
    }

    static func piped(_ ciphertext: [UInt8], magic: String = "BisqMessageiOS", iv: String = iv) -> String {
        "\(magic)|\(iv)|\(base64(ciphertext))"
    }

    /// A nonce, an AES-256-GCM ciphertext and its tag.
    static func sealed(_ clearText: String, key: [UInt8] = Array(key.utf8)) throws -> [UInt8] {
        let nonce = [UInt8](repeating: 7, count: 12)
        return nonce + (try #require(AESGCM.seal(Array(clearText.utf8), key: key, nonce: nonce)))
    }

    static func base64(_ bytes: [UInt8]) -> String { String(decoding: Base64.encode(bytes), as: UTF8.self) }

    /// The value of `encrypted` for a phone, sealed in its app's format.
    static func encrypted(_ clearText: String, for phone: Phone) throws -> String {
        let key = phone.key.withBytes { span in span.withUnsafeBytes { Array($0) } }
        guard let magic = phone.app.messageMagic(phone.magic) else { return base64(try sealed(clearText, key: key)) }
        return piped(try ciphertext(clearText, key: key), magic: magic)
    }

    /// A phone that pairs, with the key that all letters use.
    static func phone(_ app: PhoneApp, isAndroid: Bool = false) throws -> Phone {
        let token =
            isAndroid
            ? "android|Pixel|\(key)|\(String(repeating: "x", count: 40))"
            : "iOS|iPhone|\(key)|\(String(repeating: "0f", count: 32))"
        return try Phone(pairingToken: token, app: app)
    }
}
