// SPDX-License-Identifier: Apache-2.0

import CSodium

/// Ed25519 signatures (RFC 8032), by libsodium.
public enum Ed25519 {
    /// Length of a public key in bytes.
    package static let publicKeyLength = 32
    /// Length of a signature in bytes.
    package static let signatureLength = 64

    /// A private key, derived from a 32-byte seed.
    public struct PrivateKey: Sendable {
        private let secret: SecretBytes
        /// The public key, 32 bytes.
        public let publicKey: [UInt8]

        /// Derives the key from this seed; `nil` if the seed is not 32 bytes long.
        public init?(seed: [UInt8]) {
            Sodium.initialised
            guard seed.count == Int(crypto_sign_SEEDBYTES) else { return nil }
            var publicKey = [UInt8](repeating: 0, count: Int(crypto_sign_PUBLICKEYBYTES))
            var secretKey = [UInt8](repeating: 0, count: Int(crypto_sign_SECRETKEYBYTES))
            crypto_sign_seed_keypair(&publicKey, &secretKey, seed)
            self.publicKey = publicKey
            secret = SecretBytes(moving: &secretKey)
        }

        /// The 64-byte signature of `message`.
        package func sign(_ message: [UInt8]) -> [UInt8] {
            var signature = [UInt8](repeating: 0, count: Ed25519.signatureLength)
            secret.withUnsafeBytes { key in
                _ = crypto_sign_detached(
                    &signature, nil, message, UInt64(message.count),
                    key.assumingMemoryBound(to: UInt8.self).baseAddress!)
            }
            return signature
        }
    }

    /// Signs one message with the key of a seed that is not needed again. Locked memory for one signature would cost more
    /// than the signature, so the key and the seed are overwritten at once instead.
    /// - Returns: `nil` if the seed is not 32 bytes long.
    package static func sign(
        _ message: [UInt8], consuming seed: inout [UInt8]
    ) -> (publicKey: [UInt8], signature: [UInt8])? {
        Sodium.initialised
        guard seed.count == Int(crypto_sign_SEEDBYTES) else { return nil }
        var publicKey = [UInt8](repeating: 0, count: Int(crypto_sign_PUBLICKEYBYTES))
        var signature = [UInt8](repeating: 0, count: signatureLength)
        var secretKey = [UInt8](repeating: 0, count: Int(crypto_sign_SECRETKEYBYTES))
        crypto_sign_seed_keypair(&publicKey, &secretKey, seed)
        crypto_sign_detached(&signature, nil, message, UInt64(message.count), secretKey)
        sodium_memzero(&secretKey, secretKey.count)
        sodium_memzero(&seed, seed.count)
        return (publicKey, signature)
    }

    /// Whether `signature` is a valid signature of `message` by the owner of `publicKey`; `false` if a length is wrong.
    package static func isValid(signature: [UInt8], of message: [UInt8], publicKey: [UInt8]) -> Bool {
        Sodium.initialised
        guard signature.count == signatureLength, publicKey.count == publicKeyLength else { return false }
        return crypto_sign_verify_detached(signature, message, UInt64(message.count), publicKey) == 0
    }
}
