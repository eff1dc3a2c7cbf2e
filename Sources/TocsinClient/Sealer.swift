// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// Seals notifications for one pairing, so that only its phone can open them.
public struct Sealer: Sendable {
    private let pairing: PairingToken
    /// How the phone's app opens envelopes.
    public let format: EnvelopeFormat

    /// For the phone of this pairing token.
    /// - Parameter format: nil: the one that goes with the form of the pairing's key.
    public init(_ pairing: PairingToken, format: EnvelopeFormat? = nil) {
        self.pairing = pairing
        self.format = format ?? pairing.usualFormat
    }

    /// Seals a notification in the words of the app's own desktop: Bisq 1's for a `pipe` app, Bisq 2's for a `sealed` one.
    /// - Parameters:
    ///   - app: the app profile's name; empty: the node's first.
    ///   - ttl: seconds that Apple or Google may keep it.
    /// - Throws: `Rejection` where the result breaks a rule of the protocol, e.g. because the text is too long.
    public func seal(
        _ notification: BisqNotification, app: String = "", ttl: UInt32 = Envelope.longestTTL, sound: Bool = true
    ) throws(Rejection) -> Envelope {
        let clearText =
            switch format {
            case .pipe: notification.json
            case .sealed: notification.connectJSON(id: Hex.encode(SecureRandom.bytes(16)))
            }
        return try seal(clearText, app: app, ttl: ttl, sound: sound)
    }

    /// Seals a clear text. For a `pipe` app: AES-256-CBC, the text padded with spaces to whole blocks counted in bytes of
    /// UTF-8, so that text of any script works and the phones' own JSON readers do not mind. For a `sealed` app:
    /// AES-256-GCM.
    /// - Parameters:
    ///   - iv: as the format needs it, never used twice; nil: a fresh one.
    ///   - app: the app profile's name; empty: the node's first.
    ///   - ttl: seconds that Apple or Google may keep it.
    /// - Throws: `Rejection` where the result breaks a rule of the protocol, e.g. because the text is too long.
    public func seal(
        _ clearText: [UInt8], iv: [UInt8]? = nil, app: String = "", ttl: UInt32 = Envelope.longestTTL,
        sound: Bool = true
    ) throws(Rejection) -> Envelope {
        let iv = iv ?? Self.freshIV(format)
        let key = pairing.key.withBytes { span in span.withUnsafeBytes { Array($0) } }
        let ciphertext: [UInt8]? =
            switch format {
            case .pipe:
                AES256CBC.encrypt(
                    clearText + [UInt8](repeating: UInt8(ascii: " "), count: (16 - clearText.count % 16) % 16),
                    key: key,
                    iv: iv)
            case .sealed: AES256GCM.seal(clearText, key: key, nonce: iv)
            }
        guard let ciphertext else { throw Rejection(.iv) }
        return try Envelope(
            app: Array(app.utf8)[...], magic: pairing.magic, deviceToken: Array(pairing.deviceToken.utf8)[...],
            iv: iv[...], ciphertext: ciphertext[...], ttl: ttl, sound: sound, format: format)
    }

    /// 96 random bits: for a `pipe` app 16 characters of `0-9A-Za-z+/`, for a `sealed` one 12 bytes.
    public static func freshIV(_ format: EnvelopeFormat) -> [UInt8] {
        let bytes = SecureRandom.bytes(12)
        return format == .pipe ? Base64.encode(bytes) : bytes
    }

    /// Signs submissions for this phone, where it is to be rung by those who have its pairing only (PROTOCOL §3).
    public var senderKey: Ed25519.PrivateKey { Ed25519.PrivateKey(ofSenderFor: pairing) }
}
