// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import Cryptography

/// A private certificate authority, which issues the certificates of simulated servers and their clients.
package final class CertificateAuthority: @unchecked Sendable {
    // Unchecked: nothing changes the certificate and the key after init.
    private let certificate: OpaquePointer
    private let key: OpaquePointer

    /// Makes an authority with a self-signed certificate and a key that never leaves the process.
    package init(name: String) {
        key = Self.newKey()
        certificate = Self.makeCertificate(
            subject: name, notBefore: -3600, notAfter: 86_400 * 30, key: key, issuer: nil,
            extensions: [(NID_basic_constraints, "critical,CA:TRUE"), (NID_key_usage, "critical,keyCertSign,cRLSign")])
    }

    deinit {
        X509_free(certificate)
        EVP_PKEY_free(key)
    }

    /// The authority's certificate in PEM form, for clients that have to trust the authority.
    package var pem: [UInt8] { Cryptography.pem(ofCertificate: certificate) }

    package enum Purpose: Sendable {
        /// A server with these DNS names or addresses.
        case server(names: [String])
        /// A client, for instance a push provider whose certificate names the topic as its subject.
        case client
    }

    /// The kind of a certificate's key. Apple's certificates have RSA keys, which take longer to make.
    package enum KeyKind: Sendable, CaseIterable {
        case ecdsa, rsa
    }

    /// Issues a certificate with a new key. It expires `validFor` seconds from now; with a negative value, it has
    /// expired already.
    package func issue(
        subject: String, purpose: Purpose, validFor: Int = 86_400 * 7, key kind: KeyKind = .ecdsa
    ) -> CertifiedKey {
        let leafKey = Self.newKey(kind)
        defer { EVP_PKEY_free(leafKey) }
        var extensions: [(Int32, String)] = [(NID_basic_constraints, "critical,CA:FALSE")]
        switch purpose {
        case .server(let names):
            let alternatives = names.map { ($0.isIPAddress ? "IP:" : "DNS:") + $0 }
            extensions.append((NID_subject_alt_name, alternatives.joined(separator: ",")))
            extensions.append((NID_ext_key_usage, "serverAuth"))
        case .client:
            extensions.append((NID_ext_key_usage, "clientAuth"))
        }
        let leaf = Self.makeCertificate(
            subject: subject, notBefore: min(-3600, validFor - 3600), notAfter: validFor, key: leafKey,
            issuer: (certificate, key), extensions: extensions)
        defer { X509_free(leaf) }
        var privateKey = Cryptography.pem(ofPrivateKey: leafKey)
        return CertifiedKey(
            certificates: Cryptography.pem(ofCertificate: leaf) + pem,
            privateKey: .pem(SecretBytes(moving: &privateKey)),
            notAfter: certificateValidity(of: leaf).notAfter)
    }

    private static func newKey(_ kind: KeyKind = .ecdsa) -> OpaquePointer {
        guard let key = kind == .rsa ? cssl_rsa_2048_key() : cssl_ec_p256_key() else {
            fatalError("OpenSSL cannot generate a key: \(openSSLReason())")
        }
        return key
    }

    private static func makeCertificate(
        subject: String, notBefore: Int, notAfter: Int, key: OpaquePointer,
        issuer: (certificate: OpaquePointer, key: OpaquePointer)?, extensions: [(Int32, String)]
    ) -> OpaquePointer {
        guard let certificate = X509_new() else { fatalError("out of memory") }
        X509_set_version(certificate, 2)
        // RFC 5280 §4.1.2.2: the serial number is positive and unique within the authority.
        let serial = SecureRandom.bytes(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) } >> 1 | 1
        ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial)
        X509_gmtime_adj(X509_getm_notBefore(certificate), notBefore)
        X509_gmtime_adj(X509_getm_notAfter(certificate), notAfter)
        X509_NAME_add_entry_by_txt(
            X509_get_subject_name(certificate), "CN", MBSTRING_UTF8, Array(subject.utf8),
            Int32(subject.utf8.count), -1, 0)
        X509_set_issuer_name(certificate, X509_get_subject_name(issuer?.certificate ?? certificate))
        X509_set_pubkey(certificate, key)
        var context = X509V3_CTX()
        cssl_set_extension_context(&context, issuer?.certificate ?? certificate, certificate)
        for (identifier, value) in extensions {
            guard let entry = cssl_extension(&context, identifier, value) else {
                fatalError("OpenSSL cannot make the certificate extension \(value): \(openSSLReason())")
            }
            X509_add_ext(certificate, entry, -1)
            X509_EXTENSION_free(entry)
        }
        guard X509_sign(certificate, issuer?.key ?? key, EVP_sha256()) > 0 else {
            fatalError("OpenSSL cannot sign a certificate: \(openSSLReason())")
        }
        return certificate
    }
}

extension String {
    /// Whether this is an IPv4 or IPv6 address rather than a DNS name.
    fileprivate var isIPAddress: Bool {
        guard let address = a2i_IPADDRESS(self) else { return false }
        ASN1_STRING_free(address)
        return true
    }
}
