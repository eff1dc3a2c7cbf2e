// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// Seals notifications for one pairing, so that only its phone can open them.
public struct Sealer: Sendable {
    private let pairing: PairingToken
    /// Texts are padded with spaces to a multiple of this many bytes, so that their length does not reveal their type.
    public static let bucket = 256
    /// The largest padded text: the last bucket that fits into the limits of Apple and Google. A longer text gets only
    /// the padding that its cipher needs.
    private static let maximumPadded = 2816

    /// The envelope format that the phone's app opens.
    public let format: EnvelopeFormat

    /// Creates a sealer for the phone of a pairing token.
    /// - Parameters:
    ///   - pairing: the phone's pairing token.
    ///   - format: the envelope format; `nil` for the usual one for the form of the pairing's key.
    public init(_ pairing: PairingToken, format: EnvelopeFormat? = nil) {
        self.pairing = pairing
        self.format = format ?? pairing.defaultFormat
    }

    /// Seals a notification, with the fields that the phone's app reads.
    /// - Parameters:
    ///   - notification: the notification to seal.
    ///   - schema: what the phone's app reads.
    ///   - app: the name of an app of the node; empty for its first app.
    ///   - ttl: how long the node and the push service may keep the notification, in seconds.
    ///   - sound: whether the phone plays a sound.
    /// - Throws: `Rejection` if the envelope breaks a rule of the protocol, e.g. because the text is too long.
    public func seal(
        _ notification: BisqNotification, schema: TextSchema = .bisq, app: String = "",
        ttl: UInt32 = Envelope.maximumTTL, sound: Bool = true
    ) throws(Rejection) -> Envelope {
        let clearText =
            switch (format, schema) {
            case (.pipe, _), (_, .tocsin): notification.json
            case (.sealed, .bisq): notification.connectJSON(id: Hex.encode(SecureRandom.bytes(16)))
            }
        return try seal(clearText, app: app, ttl: ttl, sound: sound)
    }

    /// Seals a clear text.
    ///
    /// A `pipe` app gets AES-256-CBC, a `sealed` app AES-256-GCM; for Web Push, RFC 8291 defines the encryption, and
    /// `iv` is not used. The text is padded with spaces, which the phones' JSON parsers skip.
    /// - Parameters:
    ///   - clearText: the bytes to seal.
    ///   - iv: an initialisation vector for the format, which must not be used twice; `nil` for a random one.
    ///   - app: the name of an app of the node; empty for its first app.
    ///   - ttl: how long the node and the push service may keep the notification, in seconds.
    ///   - sound: whether the phone plays a sound.
    ///   - bucket: the multiple to which the text is padded; 1 for no more padding than the cipher needs.
    /// - Throws: `Rejection` if the envelope breaks a rule of the protocol, e.g. because the text is too long.
    public func seal(
        _ clearText: [UInt8], iv: [UInt8]? = nil, app: String = "", ttl: UInt32 = Envelope.maximumTTL,
        sound: Bool = true, bucket: Int = Sealer.bucket
    ) throws(Rejection) -> Envelope {
        let room = Self.maximumTextLength(format, isWebPush: pairing.webPush != nil)
        guard clearText.count <= room else {
            throw Rejection(
                .ciphertextLength,
                "the text is too long by \(clearText.count - room) bytes: letters beyond ASCII have 2 to 4 bytes, and ' < > & = 6"
            )
        }
        if let keys = pairing.webPush {
            return try seal(clearText, for: keys, app: app, ttl: ttl, sound: sound, bucket: bucket)
        }
        let iv = iv ?? Self.freshIV(format)
        let key = pairing.key.withBytes { span in span.withUnsafeBytes { Array($0) } }
        let ciphertext: [UInt8]? =
            switch format {
            case .pipe:
                AES256CBC.encrypt(Self.padded(clearText, bucket: bucket, block: 16), key: key, iv: iv)
            case .sealed: AESGCM.seal(Self.padded(clearText, bucket: bucket, block: 1), key: key, nonce: iv)
            }
        guard let ciphertext else { throw Rejection(.iv) }
        return try Envelope(
            app: Array(app.utf8)[...], magic: pairing.magic, deviceToken: Array(pairing.deviceToken.utf8)[...],
            handle: pairing.handle, iv: iv[...], ciphertext: ciphertext[...], ttl: ttl, sound: sound, format: format)
    }

    /// Seals a clear text for Web Push, which has a key and a salt of its own for each message.
    private func seal(
        _ clearText: [UInt8], for keys: PairingToken.WebPushKeys, app: String, ttl: UInt32, sound: Bool, bucket: Int
    ) throws(Rejection) -> Envelope {
        let secret = keys.secret.withBytes { span in span.withUnsafeBytes { Array($0) } }
        let text = Self.padded(clearText, bucket: bucket, block: 1)
        // The pairing token has checked the keys.
        guard let message = WebPushContent.seal(text, for: keys.publicKey, secret: secret) else {
            throw Rejection(.deviceTokenFormat)
        }
        return try Envelope(
            app: Array(app.utf8)[...], magic: pairing.magic, deviceToken: Array(pairing.deviceToken.utf8)[...],
            handle: pairing.handle, iv: [], ciphertext: message[...], ttl: ttl, sound: sound, format: format)
    }

    /// The longest clear text in bytes: the longest ciphertext (PROTOCOL §3), without what its encryption adds.
    static func maximumTextLength(_ format: EnvelopeFormat, isWebPush: Bool) -> Int {
        if isWebPush { return Envelope.maximumWebPush - WebPushContent.overhead }
        return format == .pipe ? Envelope.maximumCiphertext : Envelope.maximumCiphertext - AESGCM.tagLength
    }

    /// Pads a text to a multiple of `bucket` as far as the push services allow, and always to one of `block`.
    static func padded(_ text: [UInt8], bucket: Int, block: Int) -> [UInt8] {
        var length = (text.count + bucket - 1) / bucket * bucket
        if length > maximumPadded { length = max(text.count, maximumPadded) }
        length = (length + block - 1) / block * block
        return text + [UInt8](repeating: UInt8(ascii: " "), count: length - text.count)
    }

    /// Returns an initialisation vector of 96 random bits: 16 characters of `0-9A-Za-z+/` for `pipe`, 12 bytes for
    /// `sealed`.
    public static func freshIV(_ format: EnvelopeFormat) -> [UInt8] {
        let bytes = SecureRandom.bytes(12)
        return format == .pipe ? Base64.encode(bytes) : bytes
    }

    /// The key that signs submissions for this phone. The node binds it to the phone, so that afterwards only senders with
    /// the pairing reach the phone (PROTOCOL §3).
    public var senderKey: Ed25519.PrivateKey { Ed25519.PrivateKey(ofSenderFor: pairing) }
}
