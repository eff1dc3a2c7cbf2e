// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import Cryptography

extension SigningKey {
    package static func generate(_ algorithm: SignatureAlgorithm) -> SigningKey {
        if algorithm == .es256 { return randomP256() }
        let key = cssl_rsa_2048_key()
        defer { EVP_PKEY_free(key) }
        guard let key, let made = try? SigningKey(pem: Cryptography.pem(ofPrivateKey: key), algorithm: algorithm)
        else { fatalError("OpenSSL cannot generate a key: \(openSSLReason())") }
        return made
    }
}

extension PKCS12 {
    /// Packs a certificate and its key into a `.p12` file.
    package static func pack(_ certified: CertifiedKey, password: String) -> [UInt8] {
        let key = certified.makeKey()
        let leaf = withBIO(reading: certified.certificates) { PEM_read_bio_X509($0, nil, nil, nil) }
        defer {
            EVP_PKEY_free(key)
            X509_free(leaf)
        }
        guard let container = PKCS12_create(password, "push", key, leaf, nil, 0, 0, 0, 0, 0) else { return [] }
        defer { PKCS12_free(container) }
        return Cryptography.bytes { i2d_PKCS12_bio($0, container) }
    }
}
