// SPDX-License-Identifier: Apache-2.0

import CSodium

extension Ed25519 {
    /// Length in bytes of an expanded private key: the scalar, followed by the prefix from which nonces are derived
    /// (RFC 8032 §5.1.5).
    package static let expandedKeyLength = 64

    /// A new expanded private key: the SHA-512 of a random seed, its scalar clamped (RFC 8032 §5.1.5).
    package static func newExpandedKey() -> SecretBytes {
        Sodium.initialised
        var seed = SecureRandom.bytes(32)
        var key = [UInt8](repeating: 0, count: expandedKeyLength)
        crypto_hash_sha512(&key, seed, UInt64(seed.count))
        sodium_memzero(&seed, seed.count)
        key[0] &= 248
        key[31] = key[31] & 63 | 64
        return SecretBytes(moving: &key)
    }

    /// The public key of an expanded private key: the base point times the key's scalar.
    /// - Parameter expandedKey: borrowed for the duration of the call.
    /// - Returns: 32 bytes; `nil` if the key is not 64 bytes long or its scalar is zero.
    package static func publicKey(ofExpandedKey expandedKey: RawSpan) -> [UInt8]? {
        Sodium.initialised
        guard expandedKey.byteCount == expandedKeyLength else { return nil }
        var publicKey = [UInt8](repeating: 0, count: publicKeyLength)
        let result = expandedKey.withUnsafeBytes {
            crypto_scalarmult_ed25519_base_noclamp(&publicKey, $0.assumingMemoryBound(to: UInt8.self).baseAddress!)
        }
        return result == 0 ? publicKey : nil
    }
}
