// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// The signature algorithms of JSON Web Tokens that Apple and Google require (RFC 7518 §3.1).
package enum SignatureAlgorithm: String, Sendable {
    /// ECDSA on P-256 with SHA-256, for Apple's `.p8` keys.
    case es256 = "ES256"
    /// RSASSA-PKCS1-v1_5 with SHA-256, for Google's service accounts.
    case rs256 = "RS256"
}

/// The reason why a key cannot be used.
package enum KeyError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The text is not a PEM-encoded private key.
    case notPEM(reason: String)
    /// The key is not of the type that the algorithm requires.
    case wrongKind(expected: SignatureAlgorithm)

    /// The error message for the operator.
    package var description: String {
        switch self {
        case .notPEM(let reason): "not a private key in PEM form (\(reason))"
        case .wrongKind(.es256): "not a P-256 elliptic-curve key, which ES256 requires"
        case .wrongKind(.rs256): "not an RSA key of at least 2048 bits, which RS256 requires"
        }
    }
}

/// A private key that signs JSON Web Tokens. Prints as `<redacted>`.
package final class SigningKey: @unchecked Sendable, Redacted {
    // Unchecked: the EVP_PKEY does not change after init, and OpenSSL counts its references atomically.
    private let key: OpaquePointer
    /// The algorithm of the key's signatures.
    package let algorithm: SignatureAlgorithm

    private init(owning key: OpaquePointer, algorithm: SignatureAlgorithm) {
        self.key = key
        self.algorithm = algorithm
    }

    /// Reads a PKCS #8 or traditional key in PEM form.
    /// - Throws: ``KeyError`` if the text contains no key, or a key of the wrong type.
    package convenience init(pem: [UInt8], algorithm: SignatureAlgorithm) throws(KeyError) {
        guard let key = withBIO(reading: pem, readPrivateKey) else { throw .notPEM(reason: openSSLReason()) }
        guard SigningKey.isKey(key, for: algorithm) else {
            EVP_PKEY_free(key)
            throw .wrongKind(expected: algorithm)
        }
        self.init(owning: key, algorithm: algorithm)
    }

    /// Creates a random key for ES256.
    package static func randomP256() -> SigningKey {
        SigningKey(owning: P256.randomKey().key, algorithm: .es256)
    }

    deinit { EVP_PKEY_free(key) }

    /// The public key, which verifies this key's signatures.
    package var verifyingKey: VerifyingKey {
        EVP_PKEY_up_ref(key)
        return VerifyingKey(owning: key, algorithm: algorithm)
    }

    /// The public key of ES256, a point of P-256 in uncompressed form; `nil` for another algorithm.
    package var p256PublicKey: [UInt8]? { algorithm == .es256 ? P256.publicKey(of: key) : nil }

    /// The private key as unencrypted PKCS #8 in PEM form.
    package var pem: [UInt8] { Cryptography.pem(ofPrivateKey: key) }

    /// The signature of `message` in the form of RFC 7518; for ES256 the 64 bytes R ‖ S.
    package func sign(_ message: [UInt8]) -> [UInt8] {
        let context = EVP_MD_CTX_new()
        defer { EVP_MD_CTX_free(context) }
        var length = Int(EVP_PKEY_get_size(key))
        var signature = [UInt8](repeating: 0, count: length)
        guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1,
            EVP_DigestSign(context, &signature, &length, message, message.count) == 1
        else { fatalError("OpenSSL cannot sign: \(openSSLReason())") }
        signature.removeLast(signature.count - length)
        return algorithm == .es256 ? ECDSASignature.joseForm(ofDER: signature) : signature
    }

    fileprivate static func isKey(_ key: OpaquePointer, for algorithm: SignatureAlgorithm) -> Bool {
        switch algorithm {
        case .es256:
            guard EVP_PKEY_get_base_id(key) == EVP_PKEY_EC else { return false }
            var name = [CChar](repeating: 0, count: 64)
            var length = 0
            guard EVP_PKEY_get_group_name(key, &name, name.count, &length) == 1 else { return false }
            return String(decoding: name.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self) == "prime256v1"
        case .rs256:
            return EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA && EVP_PKEY_get_bits(key) >= 2048
        }
    }
}

/// A public key that verifies signatures.
package final class VerifyingKey: @unchecked Sendable {
    // Unchecked: the same reasons apply as for SigningKey.
    private let key: OpaquePointer
    /// The algorithm of the signatures that the key verifies.
    package let algorithm: SignatureAlgorithm

    fileprivate init(owning key: OpaquePointer, algorithm: SignatureAlgorithm) {
        self.key = key
        self.algorithm = algorithm
    }

    /// Reads a public key in PEM form, as ``pem`` writes it; `nil` if the text contains none for the algorithm.
    package convenience init?(pem: [UInt8], algorithm: SignatureAlgorithm) {
        defer { ERR_clear_error() }
        guard let key = withBIO(reading: pem, { PEM_read_bio_PUBKEY($0, nil, nil, nil) }) else { return nil }
        guard SigningKey.isKey(key, for: algorithm) else {
            EVP_PKEY_free(key)
            return nil
        }
        self.init(owning: key, algorithm: algorithm)
    }

    /// The key in PEM form.
    package var pem: [UInt8] { bytes { PEM_write_bio_PUBKEY($0, key) } }

    /// The key for ES256 with this point of P-256 in uncompressed form; `nil` if these bytes are no such point.
    package convenience init?(p256 point: [UInt8]) {
        guard let key = P256.key(public: point, private: nil) else { return nil }
        self.init(owning: key, algorithm: .es256)
    }

    deinit { EVP_PKEY_free(key) }

    /// Whether `signature`, in the form of RFC 7518, is a valid signature of `message` by the key's owner.
    package func isValid(signature: [UInt8], of message: [UInt8]) -> Bool {
        defer { ERR_clear_error() }
        guard let context = EVP_MD_CTX_new() else { return false }
        defer { EVP_MD_CTX_free(context) }
        var encoded = signature
        if algorithm == .es256 {
            guard let der = ECDSASignature.der(ofJOSE: signature) else { return false }
            encoded = der
        }
        return EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1
            && EVP_DigestVerify(context, encoded, encoded.count, message, message.count) == 1
    }
}

/// Converts ECDSA signatures between OpenSSL's DER and the concatenated form of JSON Web Signatures (RFC 7518 §3.4).
private enum ECDSASignature {
    static func joseForm(ofDER der: [UInt8]) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: 64)
        der.withUnsafeBufferPointer { buffer in
            var cursor = buffer.baseAddress
            guard let signature = d2i_ECDSA_SIG(nil, &cursor, buffer.count) else { return }
            output.withUnsafeMutableBufferPointer {
                BN_bn2binpad(ECDSA_SIG_get0_r(signature), $0.baseAddress!, 32)
                BN_bn2binpad(ECDSA_SIG_get0_s(signature), $0.baseAddress! + 32, 32)
            }
            ECDSA_SIG_free(signature)
        }
        return output
    }

    static func der(ofJOSE jose: [UInt8]) -> [UInt8]? {
        guard jose.count == 64, let signature = ECDSA_SIG_new() else { return nil }
        defer { ECDSA_SIG_free(signature) }
        let r = jose.withUnsafeBufferPointer { BN_bin2bn($0.baseAddress!, 32, nil) }
        let s = jose.withUnsafeBufferPointer { BN_bin2bn($0.baseAddress! + 32, 32, nil) }
        guard ECDSA_SIG_set0(signature, r, s) == 1 else { return nil }
        var output: UnsafeMutablePointer<UInt8>?
        let length = i2d_ECDSA_SIG(signature, &output)
        guard length > 0, let output else { return nil }
        defer { CRYPTO_free(output, nil, 0) }
        return Array(UnsafeBufferPointer(start: output, count: Int(length)))
    }
}
