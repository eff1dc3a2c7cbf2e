import Cryptography

/// What the phone gives the desktop by QR code: `magic|descriptor|key|device token`. Prints as `<redacted>`.
public struct PairingToken: Sendable, Redacted {
    public let magic: Magic
    /// The phone's model, for people.
    public let descriptor: String
    /// The key that seals notifications, 32 characters whose UTF-8 bytes are the AES-256 key.
    public let key: SecretBytes
    /// What Apple or Google know the phone's app by.
    public let deviceToken: String

    /// Bytes of a key.
    public static let keyLength = 32
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
        guard parts[2].utf8.count == Self.keyLength else {
            throw FormatError(
                description: "the third part, the key, has \(parts[2].utf8.count) bytes instead of \(Self.keyLength)")
        }
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
        key = SecretBytes(Array(parts[2].utf8))
        deviceToken = String(parts[3])
    }
}
