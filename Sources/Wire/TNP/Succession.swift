// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// A statement by which the owner of a sender key names the key that takes its place. After a phone was paired again
/// with the same device token, its sender adds the statement as field 0x82 of SUBMIT, and the node moves the phone's
/// binding to the new key (PROTOCOL §3, "A new key").
public struct Succession: Equatable, Sendable {
    /// The public key that the device token was bound to, 32 bytes.
    public let key: Bytes
    /// Its owner's Ed25519 signature over `"tnp1-successor" ‖ new public key ‖ device token`, 64 bytes.
    public let signature: Bytes

    static let length = Ed25519.publicKeyLength + Ed25519.signatureLength

    /// Splits the field, which has ``length`` bytes.
    init(_ field: Bytes) {
        key = field.prefix(Ed25519.publicKeyLength)
        signature = field.dropFirst(Ed25519.publicKeyLength)
    }

    /// - Parameters:
    ///   - earlier: the private key that the device token was bound to.
    ///   - key: the public key of the new pairing.
    ///   - phone: the phone, whose canonical device token is signed.
    package init(from earlier: Ed25519.PrivateKey, to key: Bytes, of phone: DeviceIdentity) {
        self.key = earlier.publicKey[...]
        signature = earlier.sign(Self.message(key, phone))[...]
    }

    private static func message(_ key: Bytes, _ phone: DeviceIdentity) -> [UInt8] {
        Array("tnp1-successor".utf8) + key + phone.bytes
    }

    /// Whether the owner of ``key`` has named this sender key as its successor for this phone.
    package func isValid(to key: Bytes, of phone: DeviceIdentity) -> Bool {
        Ed25519.isValid(signature: Array(signature), of: Self.message(key, phone), publicKey: Array(self.key))
    }
}
