// SPDX-License-Identifier: Apache-2.0

import CSodium

/// X25519 key pairs (RFC 7748), by libsodium.
package enum X25519 {
    /// Length of a private or public key in bytes.
    package static let keyLength = 32

    /// Creates a random private key.
    package static func privateKey() -> SecretBytes {
        var bytes = SecureRandom.bytes(keyLength)
        return SecretBytes(moving: &bytes)
    }

    /// The public key of `privateKey`; `nil` if `privateKey` is not 32 bytes long.
    package static func publicKey(of privateKey: SecretBytes) -> [UInt8]? {
        Sodium.initialised
        guard privateKey.count == keyLength else { return nil }
        var publicKey = [UInt8](repeating: 0, count: keyLength)
        let result = privateKey.withUnsafeBytes {
            crypto_scalarmult_base(&publicKey, $0.assumingMemoryBound(to: UInt8.self).baseAddress!)
        }
        return result == 0 ? publicKey : nil
    }
}
