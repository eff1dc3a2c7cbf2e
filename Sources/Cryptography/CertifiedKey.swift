// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// A certificate with its chain and private key, for TLS. Prints as `<redacted>`.
package struct CertifiedKey: Sendable, Redacted {
    /// The leaf certificate followed by its issuers, in PEM form.
    package let certificates: [UInt8]
    /// The private key in PEM form.
    package let privateKey: SecretBytes
    /// When the leaf certificate expires, Unix time in seconds.
    package let notAfter: Int64

    /// A certified key from its parts.
    package init(certificates: [UInt8], privateKey: SecretBytes, notAfter: Int64) {
        self.certificates = certificates
        self.privateKey = privateKey
        self.notAfter = notAfter
    }

    /// The private key as an EVP_PKEY, or `nil` if it is not usable. The caller must free it.
    package func makeKey() -> OpaquePointer? {
        privateKey.withUnsafeBytes { withBIO(reading: $0, readPrivateKey) }
    }
}

/// Why a `.p12` file could not be opened.
package enum PKCS12Error: Error, Equatable, Sendable, CustomStringConvertible {
    /// The file is not a PKCS #12 file.
    case notPKCS12
    /// The password is wrong.
    case wrongPassword
    /// The file contains no certificate with its private key.
    case incomplete

    /// The error message for the operator.
    package var description: String {
        switch self {
        case .notPKCS12: "not a PKCS #12 (.p12) file"
        case .wrongPassword: "the password of the .p12 file is wrong"
        case .incomplete: "contains no certificate with its private key: export both together"
        }
    }
}

/// PKCS #12 files (RFC 7292), the format in which Apple's push certificates are exported.
package enum PKCS12 {
    // Keychain Access still exports with RC2, which OpenSSL 3 has only in its legacy provider. Loading a provider
    // explicitly stops OpenSSL from loading the default one, so this loads both.
    private static let legacyCiphers: Void = {
        _ = OSSL_PROVIDER_load(nil, "default")
        _ = OSSL_PROVIDER_load(nil, "legacy")
    }()

    /// Reads a `.p12` file.
    /// - Throws: ``PKCS12Error``.
    package static func open(_ bytes: [UInt8], password: SecretBytes) throws(PKCS12Error) -> CertifiedKey {
        legacyCiphers
        defer { ERR_clear_error() }
        let container = withBIO(reading: bytes) { d2i_PKCS12_bio($0, nil) }
        guard let container else { throw .notPKCS12 }
        defer { PKCS12_free(container) }
        var key: OpaquePointer?
        var leaf: OpaquePointer?
        var chain: OpaquePointer?
        let opened = password.withUnsafeBytes { secret in
            (Array(secret) + [0]).withUnsafeBytes {
                PKCS12_parse(container, $0.assumingMemoryBound(to: CChar.self).baseAddress, &key, &leaf, &chain)
            }
        }
        guard opened == 1 else { throw .wrongPassword }
        defer {
            EVP_PKEY_free(key)
            X509_free(leaf)
            if let chain { cssl_x509_stack_free(chain) }
        }
        guard let key, let leaf else { throw .incomplete }
        var certificates = pem(ofCertificate: leaf)
        if let chain {
            for index in 0..<cssl_x509_stack_count(chain) {
                certificates += cssl_x509_stack_item(chain, index).map(pem(ofCertificate:)) ?? []
            }
        }
        var privateKey = pem(ofPrivateKey: key)
        return CertifiedKey(
            certificates: certificates, privateKey: SecretBytes(moving: &privateKey),
            notAfter: certificateValidity(of: leaf).notAfter)
    }
}
