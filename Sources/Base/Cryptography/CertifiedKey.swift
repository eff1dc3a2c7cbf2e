// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// A certificate with its chain and private key, for TLS. Prints as `<redacted>`.
package struct CertifiedKey: Sendable, Redacted {
    /// Where the private key is.
    package enum PrivateKey: Sendable {
        /// Here, in PEM form.
        case pem(SecretBytes)
        /// In another process.
        case remote(any RemoteKey)
    }

    /// The leaf certificate followed by its issuers, in PEM form.
    package let certificates: [UInt8]
    package let privateKey: PrivateKey
    /// When the leaf certificate expires, Unix time in seconds.
    package let notAfter: Int64

    package init(certificates: [UInt8], privateKey: PrivateKey, notAfter: Int64) {
        self.certificates = certificates
        self.privateKey = privateKey
        self.notAfter = notAfter
    }

    /// Whether the private key is in another process, so that a signature blocks the thread that makes it.
    package var isRemote: Bool { if case .remote = privateKey { true } else { false } }

    /// The private key in PEM form; `nil` if it is in another process.
    package var pem: SecretBytes? { if case .pem(let text) = privateKey { text } else { nil } }

    /// The private key as an EVP_PKEY, or `nil` if it is not usable. The caller must free it.
    package func makeKey() -> OpaquePointer? {
        switch privateKey {
        case .pem(let text): text.withUnsafeBytes { withBIO(reading: $0, readPrivateKey) }
        case .remote(let key): key.makeKey(certifiedBy: certificates)
        }
    }

    /// Signs as ``RemoteKey/sign(_:padding:)`` does, for a key that is here; `nil` if it fails.
    package func sign(_ input: [UInt8], padding: Int32) -> [UInt8]? {
        defer { ERR_clear_error() }
        guard case .pem = privateKey, let key = makeKey() else { return nil }
        defer { EVP_PKEY_free(key) }
        guard let context = EVP_PKEY_CTX_new(key, nil) else { return nil }
        defer { EVP_PKEY_CTX_free(context) }
        guard EVP_PKEY_sign_init(context) == 1 else { return nil }
        if EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA {
            guard [RSA_PKCS1_PADDING, RSA_NO_PADDING].contains(padding), cssl_set_rsa_padding(context, padding) == 1
            else { return nil }
        }
        var length = Int(EVP_PKEY_get_size(key))
        var signature = [UInt8](repeating: 0, count: length)
        guard EVP_PKEY_sign(context, &signature, &length, input, input.count) == 1 else { return nil }
        signature.removeLast(signature.count - length)
        return signature
    }
}

/// The private key of a certificate, in another process.
package protocol RemoteKey: AnyObject, Sendable {
    /// The raw signature of `input`, which is the digest for ECDSA, and for RSA what the padding is applied to; `nil`
    /// if the other process does not answer. Called on a thread that may block: the handshake threads of `TLSContext`.
    /// - Parameter padding: `RSA_PKCS1_PADDING` or `RSA_NO_PADDING`; ignored for ECDSA.
    func sign(_ input: [UInt8], padding: Int32) -> [UInt8]?
}

extension RemoteKey {
    /// The key as an EVP_PKEY, with which OpenSSL signs as with any other; `nil` if it is neither RSA nor ECDSA. The
    /// caller must free it.
    fileprivate func makeKey(certifiedBy certificates: [UInt8]) -> OpaquePointer? {
        guard let certificate = withBIO(reading: certificates, readCertificate) else { return nil }
        defer { X509_free(certificate) }
        let context = Unmanaged.passRetained(RemoteKeyBox(key: self))
        let key = cssl_external_key(
            X509_get0_pubkey(certificate),
            { context, padding, input, count, output, capacity in
                guard let context, let input, let output else { return -1 }
                let key = Unmanaged<RemoteKeyBox>.fromOpaque(context).takeUnretainedValue().key
                let message = Array(UnsafeBufferPointer(start: input, count: count))
                guard let signature = key.sign(message, padding: padding), signature.count <= capacity else {
                    return -1
                }
                output.update(from: signature, count: signature.count)
                return Int32(signature.count)
            },
            { context in if let context { Unmanaged<RemoteKeyBox>.fromOpaque(context).release() } },
            context.toOpaque())
        if key == nil { context.release() }
        return key
    }
}

/// Holds a key for C, whose pointers have one word: an existential takes two.
private final class RemoteKeyBox {
    let key: any RemoteKey

    init(key: any RemoteKey) { self.key = key }
}

/// Why a `.p12` file could not be opened.
package enum PKCS12Error: Error, Equatable, Sendable, CustomStringConvertible {
    /// The file is not a PKCS #12 file.
    case notPKCS12
    /// The file has no code that protects it (RFC 7292 §4), so nothing tells whether the password is right.
    case unprotected
    /// The password is wrong.
    case wrongPassword
    /// The file contains no certificate with its private key.
    case incomplete

    /// The error message for the operator.
    package var description: String {
        switch self {
        case .notPKCS12: "not a PKCS #12 (.p12) file"
        case .unprotected: "has no integrity protection (MAC), as of openssl pkcs12 -nomac"
        case .wrongPassword: "the password of the .p12 file is wrong"
        case .incomplete: "contains no certificate with its private key"
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
        guard PKCS12_mac_present(container) == 1 else { throw .unprotected }
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
            certificates: certificates, privateKey: .pem(SecretBytes(moving: &privateKey)),
            notAfter: certificateValidity(of: leaf).notAfter)
    }
}
