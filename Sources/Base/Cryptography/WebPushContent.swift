// SPDX-License-Identifier: Apache-2.0

/// The encryption of Web Push (RFC 8291): a message of one record in the content coding `aes128gcm` (RFC 8188), for the
/// keys of one phone or browser.
package enum WebPushContent {
    /// Length of the authentication secret in bytes (RFC 8291 §3.2).
    package static let secretLength = 16
    /// Bytes of the message's header: salt, record size, length of the key id, and the sender's public key as key id.
    package static let headerLength = saltLength + 4 + 1 + P256.publicKeyLength
    /// Bytes by which a message is longer than its text: the header, the delimiter of the padding, and the tag.
    package static let overhead = headerLength + 1 + AESGCM.tagLength
    private static let saltLength = 16
    /// The record size that a header names; it bounds the only record (RFC 8291 §4).
    private static let recordSize: UInt32 = 4096
    /// The delimiter of the last record's padding (RFC 8188 §2).
    private static let lastRecord: UInt8 = 2

    /// Encrypts a text. The caller has padded it.
    /// - Parameters:
    ///   - publicKey: the receiver's, `p256dh`.
    ///   - secret: the receiver's authentication secret, `auth`.
    ///   - sender: a key for this message alone.
    ///   - salt: 16 random bytes.
    /// - Returns: `nil` if a length is wrong, or the public key is no point of the curve.
    package static func seal(
        _ text: [UInt8], for publicKey: [UInt8], secret: [UInt8], sender: P256.PrivateKey = P256.PrivateKey(),
        salt: [UInt8] = SecureRandom.bytes(saltLength)
    ) -> [UInt8]? {
        guard salt.count == saltLength, secret.count == secretLength,
            text.count + 1 + AESGCM.tagLength <= recordSize,
            let shared = sender.sharedSecret(with: publicKey)
        else { return nil }
        let (key, nonce) = keys(
            shared, secret: secret, receiver: publicKey, sender: sender.publicKey, salt: salt)
        guard let record = AESGCM.seal(text + [lastRecord], key: key, nonce: nonce) else { return nil }
        var message = salt
        withUnsafeBytes(of: recordSize.bigEndian) { message += $0 }
        message.append(UInt8(sender.publicKey.count))
        return message + sender.publicKey + record
    }

    /// Decrypts a message; `nil` if it is not one for these keys.
    package static func open(_ message: [UInt8], by receiver: P256.PrivateKey, secret: [UInt8]) -> [UInt8]? {
        guard message.count >= overhead, message[saltLength + 4] == P256.publicKeyLength else { return nil }
        let sender = Array(message[(headerLength - P256.publicKeyLength)..<headerLength])
        let size = message[saltLength..<saltLength + 4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        guard message.count - headerLength <= size, let shared = receiver.sharedSecret(with: sender) else { return nil }
        let (key, nonce) = keys(
            shared, secret: secret, receiver: receiver.publicKey, sender: sender, salt: Array(message[..<saltLength]))
        guard let text = AESGCM.open(Array(message[headerLength...]), key: key, nonce: nonce),
            // Zeros after the delimiter are padding.
            let end = text.lastIndex(where: { $0 != 0 }), text[end] == lastRecord
        else { return nil }
        return Array(text[..<end])
    }

    /// The key and the nonce of the only record (RFC 8291 §3.4).
    private static func keys(
        _ shared: [UInt8], secret: [UInt8], receiver: [UInt8], sender: [UInt8], salt: [UInt8]
    ) -> (key: [UInt8], nonce: [UInt8]) {
        // HKDF (RFC 5869) whose output fits in one block.
        func derive(_ material: [UInt8], salt: [UInt8], info: [UInt8], length: Int) -> [UInt8] {
            let extracted = HMAC.sha256(material, key: salt)
            return Array(HMAC.sha256(info + [1], key: extracted).prefix(length))
        }
        let material = derive(
            shared, salt: secret, info: Array("WebPush: info\0".utf8) + receiver + sender, length: 32)
        return (
            derive(material, salt: salt, info: Array("Content-Encoding: aes128gcm\0".utf8), length: 16),
            derive(material, salt: salt, info: Array("Content-Encoding: nonce\0".utf8), length: 12)
        )
    }
}
