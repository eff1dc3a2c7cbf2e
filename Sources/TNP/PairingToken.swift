// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// What the phone gives the desktop by QR code: `magic|descriptor|key|device token`. Prints as `<redacted>`.
public struct PairingToken: Sendable, Redacted {
    public let magic: Magic
    /// The phone's model, for people.
    public let descriptor: String
    /// The AES-256 key that seals notifications, 32 bytes: the UTF-8 bytes of 32 characters, or what 44 characters of
    /// Base64 stand for.
    public let key: SecretBytes
    /// How the apps seal that make keys of this form: 32 characters are Bisq 1's and Haveno's, Base64 is Bisq Connect's.
    public let usualFormat: EnvelopeFormat
    /// What Apple or Google know the phone's app by.
    public let deviceToken: String

    /// Bytes of a key.
    public static let keyLength = 32
    /// Characters of a key in Base64.
    public static let base64KeyLength = 44
    /// Characters of an Apple device token in a pairing token.
    public static let appleTokenLength = 64
    /// The fewest characters of a Google device token.
    public static let shortestGoogleToken = 32

    /// What is wrong with a text that should be a pairing token. The text itself is never part of it.
    public struct FormatError: Error, Equatable, Sendable, CustomStringConvertible {
        public let description: String
    }

    /// Reads a pairing token.
    /// - Throws: ``FormatError``, in words for the person who pasted it.
    public init(_ text: String) throws(FormatError) {
        let parts = text.split(separator: "|", omittingEmptySubsequences: false)
        guard parts.count == 4 else {
            throw FormatError(
                description:
                    "a pairing token has four parts, magic|descriptor|key|device token; this has \(parts.count)")
        }
        guard let magic = Magic(rawValue: String(parts[0])) else {
            throw FormatError(description: "the first part, the magic, is none of iOS, iOSDev and android")
        }
        let (keyBytes, format) = try Self.key(Array(parts[2].utf8))
        switch magic {
        case .iOS, .iOSDev:
            guard parts[3].utf8.count == Self.appleTokenLength, parts[3].utf8.allSatisfy(Hex.isDigit) else {
                throw FormatError(
                    description: "the fourth part, the device token, is not \(Self.appleTokenLength) hexadecimal digits"
                )
            }
        case .android:
            guard parts[3].utf8.count >= Self.shortestGoogleToken else {
                throw FormatError(
                    description:
                        "the fourth part, the device token, has fewer than \(Self.shortestGoogleToken) characters")
            }
        }
        self.magic = magic
        descriptor = String(parts[1])
        key = SecretBytes(keyBytes)
        usualFormat = format
        deviceToken = String(parts[3])
    }

    private static func key(_ text: [UInt8]) throws(FormatError) -> ([UInt8], EnvelopeFormat) {
        if text.count == keyLength { return (text, .pipe) }
        if text.count == base64KeyLength, let key = Base64.decode(text), key.count == keyLength {
            return (key, .sealed)
        }
        throw FormatError(
            description:
                "the third part, the key, has \(text.count) bytes; it must have \(keyLength), or be the Base64 of "
                + "\(keyLength) bytes")
    }
}
