// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// Key agreement on the curve P-256 (NIST SP 800-56A), which Web Push uses (RFC 8291 §3.1), by OpenSSL.
package enum P256 {
    /// Length of a public key in uncompressed form (SEC 1 §2.3.3), in bytes.
    package static let publicKeyLength = 65
    /// Length of a private key in bytes.
    package static let privateKeyLength = 32

    /// A random key, which the caller frees. Traps without memory or random bytes, because the process could not
    /// continue.
    static func randomKey() -> (key: OpaquePointer, publicKey: [UInt8]) {
        guard let key = cssl_ec_p256_key(), let publicKey = publicKey(of: key) else {
            fatalError("OpenSSL cannot make a P-256 key: \(openSSLReason())")
        }
        return (key, publicKey)
    }

    /// A private key. Prints as `<redacted>`.
    package final class PrivateKey: @unchecked Sendable, Redacted {
        // Unchecked: the EVP_PKEY does not change after init, and OpenSSL counts its references atomically.
        private let key: OpaquePointer
        /// The public key, in uncompressed form.
        package let publicKey: [UInt8]

        /// Creates a random key.
        package init() {
            (key, publicKey) = P256.randomKey()
        }

        /// Creates the key with this private and public part; `nil` if they do not belong together.
        package init?(_ privateKey: [UInt8], publicKey: [UInt8]) {
            guard privateKey.count == privateKeyLength,
                let key = P256.key(public: publicKey, private: privateKey)
            else { return nil }
            (self.key, self.publicKey) = (key, publicKey)
        }

        deinit { EVP_PKEY_free(key) }

        /// The secret that this key shares with the owner of a public key, 32 bytes; `nil` if that is no point of the
        /// curve.
        package func sharedSecret(with publicKey: [UInt8]) -> [UInt8]? {
            defer { ERR_clear_error() }
            guard let peer = P256.key(public: publicKey, private: nil) else { return nil }
            defer { EVP_PKEY_free(peer) }
            guard let context = EVP_PKEY_CTX_new(key, nil) else { return nil }
            defer { EVP_PKEY_CTX_free(context) }
            var secret = [UInt8](repeating: 0, count: privateKeyLength)
            var length = secret.count
            guard EVP_PKEY_derive_init(context) == 1, EVP_PKEY_derive_set_peer(context, peer) == 1,
                EVP_PKEY_derive(context, &secret, &length) == 1, length == secret.count
            else { return nil }
            return secret
        }
    }

    /// Whether these bytes are a public key: a point of the curve in uncompressed form.
    package static func isPublicKey(_ bytes: [UInt8]) -> Bool {
        guard let key = key(public: bytes, private: nil) else { return false }
        EVP_PKEY_free(key)
        return true
    }

    /// A public key in uncompressed form; `nil` for a key without a point of 65 bytes, such as RSA.
    static func publicKey(of key: OpaquePointer) -> [UInt8]? {
        var point = [UInt8](repeating: 0, count: publicKeyLength)
        var length = 0
        guard
            EVP_PKEY_get_octet_string_param(key, OSSL_PKEY_PARAM_PUB_KEY, &point, point.count, &length) == 1,
            length == point.count
        else { return nil }
        return point
    }

    /// A key of OpenSSL, which the caller frees; `nil` if the parts are invalid.
    static func key(public publicKey: [UInt8], private privateKey: [UInt8]?) -> OpaquePointer? {
        guard publicKey.count == publicKeyLength, publicKey[0] == 4 else { return nil }
        defer { ERR_clear_error() }
        guard let key = cssl_p256_key(publicKey, publicKey.count, privateKey, privateKey?.count ?? 0) else {
            return nil
        }
        // Also checks that the point is on the curve.
        let check = EVP_PKEY_CTX_new(key, nil)
        defer { EVP_PKEY_CTX_free(check) }
        guard (privateKey == nil ? EVP_PKEY_public_check(check) : EVP_PKEY_check(check)) == 1 else {
            EVP_PKEY_free(key)
            return nil
        }
        return key
    }
}
