// SPDX-License-Identifier: Apache-2.0

import Crypto
import CryptoExtras

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Opens the notifications that arrive.
extension PhonePairing {
    private static let (ivLength, nonceLength, tagLength) = (16, 12, 16)

    /// Opens a notification from Apple or Google.
    /// - Parameter encrypted: the value of the key `encrypted`: Base64 of nonce, ciphertext and tag, or for a key of 32
    ///   characters `MAGIC|IV|Base64 of the ciphertext`.
    /// - Returns: the clear text, without the spaces that pad it. With ``Format/pipe`` it is not authenticated: anyone
    ///   may have changed it.
    /// - Throws: ``PhoneError/cannotOpen(_:)``.
    public func open(_ encrypted: String) throws(PhoneError) -> [UInt8] {
        switch format {
        case .sealed:
            guard let sealed = Data(base64Encoded: encrypted), sealed.count > Self.nonceLength + Self.tagLength else {
                throw .cannotOpen("it is not Base64, or too short")
            }
            do {
                let box = try AES.GCM.SealedBox(combined: sealed)
                return Self.withoutPadding(Array(try AES.GCM.open(box, using: SymmetricKey(data: key))))
            } catch {
                throw .cannotOpen("it is damaged, or sealed with another key")
            }
        case .pipe:
            let parts = encrypted.split(separator: "|", omittingEmptySubsequences: false)
            guard parts.count == 3, parts[1].utf8.count == Self.ivLength,
                let ciphertext = Data(base64Encoded: String(parts[2]))
            else { throw .cannotOpen("it is not MAGIC|IV|Base64") }
            do {
                let iv = try AES._CBC.IV(ivBytes: Array(parts[1].utf8))
                return Self.withoutPadding(
                    Array(
                        try AES._CBC.decrypt(ciphertext, using: SymmetricKey(data: key), iv: iv, noPadding: true)))
            } catch {
                throw .cannotOpen("it is not a whole number of blocks")
            }
        }
    }

    /// Opens the body of a Web Push message.
    /// - Returns: the clear text, without the spaces that pad it.
    /// - Throws: ``PhoneError/cannotOpen(_:)``, also for a phone without Web Push.
    public func open(webPush body: [UInt8]) throws(PhoneError) -> [UInt8] {
        guard let receiver else { throw .cannotOpen("this phone does not receive Web Push") }
        return Self.withoutPadding(try receiver.open(body))
    }

    private static func withoutPadding(_ text: [UInt8]) -> [UInt8] {
        Array(text[..<(text.lastIndex { $0 != UInt8(ascii: " ") }.map { $0 + 1 } ?? 0)])
    }
}
