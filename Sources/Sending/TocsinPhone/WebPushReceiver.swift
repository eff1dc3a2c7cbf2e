// SPDX-License-Identifier: Apache-2.0

import Crypto

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The keys of a receiver of Web Push (RFC 8291 §3), with which it subscribes and opens messages. Prints without its content;
/// encode it (`Codable`) only to store it where secrets belong.
public struct WebPushReceiver: Codable, Sendable, CustomStringConvertible {
    private let privateKey: [UInt8]
    private let secret: [UInt8]

    private static let (secretLength, saltLength, pointLength, tagLength) = (16, 16, 65, 16)
    private static let headerLength = saltLength + 4 + 1 + pointLength
    /// The delimiter of the last record's padding (RFC 8188 §2).
    private static let lastRecord: UInt8 = 2

    /// Makes new keys.
    public init() {
        privateKey = Array(P256.KeyAgreement.PrivateKey().rawRepresentation)
        secret = SymmetricKey(size: .bits128).withUnsafeBytes { Array($0) }
    }

    /// Takes existing keys.
    /// - Parameters:
    ///   - privateKey: the private key of P-256, 32 bytes.
    ///   - secret: the authentication secret, 16 bytes.
    /// - Returns: `nil` if one of them is not valid.
    public init?(privateKey: [UInt8], secret: [UInt8]) {
        guard (try? P256.KeyAgreement.PrivateKey(rawRepresentation: privateKey)) != nil,
            secret.count == Self.secretLength
        else { return nil }
        self.privateKey = privateKey
        self.secret = secret
    }

    /// Decodes keys.
    /// - Throws: ``PhoneError/damaged`` if they are not valid; the decoder's errors.
    public init(from decoder: any Decoder) throws {
        let fields = try decoder.container(keyedBy: CodingKeys.self)
        guard
            let receiver = WebPushReceiver(
                privateKey: try fields.decode([UInt8].self, forKey: .privateKey),
                secret: try fields.decode([UInt8].self, forKey: .secret))
        else { throw PhoneError.damaged }
        self = receiver
    }

    private enum CodingKeys: CodingKey { case privateKey, secret }

    private func key() throws -> P256.KeyAgreement.PrivateKey {
        try P256.KeyAgreement.PrivateKey(rawRepresentation: privateKey)
    }

    /// The public key in unpadded Base64url, as distributors and pairing tokens have it: `p256dh`.
    public var publicKeyText: String { (try? key()).map { Self.urlSafe(Array($0.publicKey.x963Representation)) } ?? "" }
    /// The authentication secret in unpadded Base64url: `auth`.
    public var secretText: String { Self.urlSafe(secret) }

    private static func urlSafe(_ bytes: [UInt8]) -> String {
        String(
            Data(bytes).base64EncodedString().compactMap { character -> Character? in
                switch character {
                case "+": "-"
                case "/": "_"
                case "=": nil
                default: character
                }
            })
    }

    /// Opens a message in the content coding `aes128gcm` (RFC 8188) of one record.
    /// - Throws: ``PhoneError/cannotOpen(_:)``.
    func open(_ message: [UInt8]) throws(PhoneError) -> [UInt8] {
        guard message.count > Self.headerLength + Self.tagLength,
            message[Self.saltLength + 4] == UInt8(Self.pointLength)
        else { throw .cannotOpen("it is too short for Web Push, or not from a sender of notifications") }
        let salt = message[..<Self.saltLength]
        let point = Array(message[(Self.saltLength + 5)..<Self.headerLength])
        do {
            let key = try key()
            let shared = try key.sharedSecretFromKeyAgreement(
                with: P256.KeyAgreement.PublicKey(x963Representation: point))
            let info = Array("WebPush: info\0".utf8) + key.publicKey.x963Representation + point
            let material = shared.hkdfDerivedSymmetricKey(
                using: SHA256.self, salt: secret, sharedInfo: info, outputByteCount: 32)
            func derive(_ info: String, _ count: Int) -> SymmetricKey {
                HKDF<SHA256>.deriveKey(
                    inputKeyMaterial: material, salt: Array(salt), info: Array(info.utf8), outputByteCount: count)
            }
            let nonce = derive("Content-Encoding: nonce\0", 12).withUnsafeBytes { Array($0) }
            let sealed = message[Self.headerLength...]
            let text = Array(
                try AES.GCM.open(
                    AES.GCM.SealedBox(
                        nonce: AES.GCM.Nonce(data: nonce), ciphertext: sealed.dropLast(Self.tagLength),
                        tag: sealed.suffix(Self.tagLength)),
                    using: derive("Content-Encoding: aes128gcm\0", 16)))
            // Zeros after the delimiter are padding.
            if let end = text.lastIndex(where: { $0 != 0 }), text[end] == Self.lastRecord { return Array(text[..<end]) }
        } catch {}
        throw .cannotOpen("it is damaged, or sealed for other keys")
    }

    /// A text with no part of the content.
    public var description: String { "<WebPushReceiver redacted>" }
}
