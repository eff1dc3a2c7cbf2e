// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// The text that the phone gives the desktop by QR code: `magic|descriptor|key|device token`, or, for a phone that has
/// registered a handle, `magic|descriptor|key|handle:HANDLE`. For Web Push, two parts follow: the receiver's public key
/// and authentication secret (PROTOCOL §15). Prints as `<redacted>`.
public struct PairingToken: Sendable, Redacted {
    /// The push service of the phone.
    public let magic: Magic
    /// The phone's model, for display.
    public let descriptor: String
    /// The AES-256 key that seals notifications, 32 bytes: the UTF-8 bytes of the key's text, or the bytes that its 44
    /// characters of Base64 encode. For Web Push, only the sender key comes from it.
    public let key: SecretBytes
    /// The envelope format of the apps that make keys of this form: `pipe` for 32 characters (Bisq 1, Haveno), `sealed`
    /// for Base64 (Bisq Connect).
    public let defaultFormat: EnvelopeFormat
    /// The token by which Apple or Google identifies the app on this phone, or the push endpoint of Web Push; empty if the
    /// pairing has a handle instead.
    public let deviceToken: String
    /// The keys that seal notifications for Web Push; `nil` for Apple and Google.
    public let webPush: WebPushKeys?
    /// The handle that a node keeps for this phone (PROTOCOL §11); `nil` if the pairing has a device token.
    public let handle: Handle?

    /// The length of a key, in bytes.
    public static let keyLength = 32
    /// The length of a key in Base64, in characters.
    public static let base64KeyLength = 44
    /// The length of the device tokens that Apple issues, in hexadecimal digits. A pairing token may have one of
    /// another length: Apple documents its tokens as variable in length.
    public static let appleTokenLength = 64

    /// Whether an Apple device token may have this number of hexadecimal digits.
    package static func isAppleTokenLength(_ count: Int) -> Bool {
        count.isMultiple(of: 2) && FieldRules.appleTokenLengths.contains(count)
    }
    /// The smallest length of a Google device token in a pairing token, in bytes of UTF-8.
    public static let minimumGoogleTokenLength = 32

    /// The keys of a receiver of Web Push (RFC 8291 §3).
    public struct WebPushKeys: Sendable, Redacted {
        /// The receiver's public key, a point of P-256 in uncompressed form: `p256dh`.
        public let publicKey: [UInt8]
        /// The authentication secret, 16 bytes: `auth`.
        public let secret: SecretBytes
    }

    /// The error of a text that is not a pairing token. It never contains the text itself.
    public struct FormatError: Error, Equatable, Sendable, CustomStringConvertible {
        /// One sentence for the person who pasted the text.
        public let description: String

        package init(description: String) { self.description = description }
    }

    /// Parses a pairing token.
    /// - Throws: ``FormatError`` if `text` is not a pairing token.
    public init(_ text: String) throws(FormatError) {
        // Drops the white space that a file or a terminal adds, like the clients in Java and Python.
        let text = text.drop(while: \.isWhitespace)
        let end = text.lastIndex { !$0.isWhitespace }.map(text.index(after:)) ?? text.startIndex
        let parts = text[..<end].split(separator: "|", omittingEmptySubsequences: false)
        guard parts.count == 4 || parts.count == 6 else {
            throw FormatError(
                description:
                    "a pairing token has four parts, magic|descriptor|key|device token, and two more for Web Push; this "
                    + "text has \(parts.count)")
        }
        guard let magic = Magic(rawValue: String(parts[0])) else {
            throw FormatError(description: "the first part, the magic, is not iOS, iOSDev, android or web")
        }
        guard (magic == .web) == (parts.count == 6) else {
            throw FormatError(
                description: magic == .web
                    ? "a pairing token for Web Push has six parts; this text has four"
                    : "a pairing token for \(magic.rawValue) has four parts; this text has six")
        }
        let (keyBytes, format) = try Self.key(Array(parts[2].utf8))
        handle = try Self.handle(parts[3])
        switch magic {
        case _ where handle != nil: break
        case .android where parts[3].utf8.count < Self.minimumGoogleTokenLength:
            throw FormatError(
                description:
                    "the fourth part, the device token, has fewer than \(Self.minimumGoogleTokenLength) characters")
        default:
            do throws(Rejection) {
                try FieldRules.check(deviceToken: Array(parts[3].utf8)[...], of: magic)
            } catch {
                throw FormatError(description: "the fourth part: \(error.text)")
            }
        }
        webPush = magic == .web ? try Self.webPushKeys(parts[4], parts[5]) : nil
        self.magic = magic
        descriptor = String(parts[1])
        key = SecretBytes(keyBytes)
        defaultFormat = format
        deviceToken = handle == nil ? String(parts[3]) : ""
    }

    /// What the sender addresses the phone by: the bytes of the handle, or without one the UTF-8 bytes of the device
    /// token.
    public var address: [UInt8] { handle?.bytes ?? Array(deviceToken.utf8) }

    /// Whether both name the same device token; `false` if one of them has a handle.
    package func isForSamePhone(as other: PairingToken) -> Bool {
        func phone(_ pairing: PairingToken) -> DeviceIdentity {
            DeviceIdentity(Array(pairing.deviceToken.utf8)[...], of: pairing.magic)
        }
        return handle == nil && other.handle == nil && phone(self) == phone(other)
    }

    /// The text of this pairing token, key included, with a handle in place of the device token.
    public func text(by handle: Handle) -> String {
        let bytes = key.withBytes { span in span.withUnsafeBytes { Array($0) } }
        let keyText = defaultFormat == .pipe ? bytes : Base64.encode(bytes)
        var parts = [magic.rawValue, descriptor, String(decoding: keyText, as: UTF8.self), handle.text]
        if let webPush {
            let secret = webPush.secret.withBytes { span in span.withUnsafeBytes { Array($0) } }
            parts += [webPush.publicKey, secret].map { String(decoding: Base64.encodeURLSafe($0), as: UTF8.self) }
        }
        return parts.joined(separator: "|")
    }

    private static func webPushKeys(_ publicKey: Substring, _ secret: Substring) throws(FormatError) -> WebPushKeys {
        guard let point = Base64.decodeURLSafe(Array(publicKey.utf8)), P256.isPublicKey(point) else {
            throw FormatError(description: "the fifth part is not the Base64url of a public key of P-256")
        }
        guard let bytes = Base64.decodeURLSafe(Array(secret.utf8)), bytes.count == WebPushContent.secretLength else {
            throw FormatError(
                description:
                    "the sixth part is not the Base64url of an authentication secret of \(WebPushContent.secretLength) bytes"
            )
        }
        return WebPushKeys(publicKey: point, secret: SecretBytes(bytes))
    }

    private static func handle(_ text: Substring) throws(FormatError) -> Handle? {
        guard text.hasPrefix(Handle.prefix) else { return nil }
        guard let handle = Handle(text: String(text)) else {
            throw FormatError(
                description:
                    "the fourth part is not \(Handle.prefix) and the \(2 * Handle.length) hexadecimal digits of a handle"
            )
        }
        return handle
    }

    private static func key(_ text: [UInt8]) throws(FormatError) -> ([UInt8], EnvelopeFormat) {
        if text.count == keyLength { return (text, .pipe) }
        if text.count == base64KeyLength, let key = Base64.decodeSecret(text), key.count == keyLength {
            return (key, .sealed)
        }
        throw FormatError(
            description:
                "the third part, the key, has \(text.count) bytes; it must have \(keyLength), or be Base64 of "
                + "\(keyLength) bytes")
    }
}
