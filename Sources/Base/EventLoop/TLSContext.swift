// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import Cryptography
import Dispatch
import Glibc

/// The TLS settings that connections share: trusted authorities, own certificate and application protocol. TLS 1.2 is
/// the minimum version.
package final class TLSContext: @unchecked Sendable {
    // Unchecked: the SSL_CTX is set up in init and only used afterwards, which OpenSSL allows from several threads.

    /// Why a context could not be created.
    package struct SetupError: Error, Sendable, CustomStringConvertible {
        /// The message for the operator.
        package let description: String
    }

    /// The SSL_CTX.
    package let handle: OpaquePointer
    /// The preferred protocol of ALPN.
    let applicationProtocol: String?
    private let fallback: String?
    /// The threads on which handshakes take their steps; `nil` for the loop's.
    private(set) var handshakeThreads: DispatchQueue?
    /// The application protocol as an ALPN list (RFC 7301 §3.1); empty if there is none.
    package let wireProtocols: [UInt8]

    /// A context for outgoing connections. It always verifies the server's chain, host name and validity dates.
    /// - Parameters:
    ///   - authorities: one of them has to have issued the server's certificate.
    ///   - identity: presented if the server requests a certificate.
    ///   - applicationProtocol: the preferred ALPN protocol, and required unless there is a `fallback`; `nil` to offer
    ///     none.
    ///   - fallback: the protocol that the server may choose instead, and that it speaks if it has no ALPN.
    ///   - handshakeThreads: take the steps of handshakes, for servers that could choose expensive ones. `nil` for the
    ///     loop's thread, or for a queue of the context's own if the key of `identity` is in another process.
    /// - Throws: ``SetupError``.
    package static func client(
        authorities: TrustedAuthorities, identity: CertifiedKey? = nil, applicationProtocol: String?,
        fallback: String? = nil, handshakeThreads: DispatchQueue? = nil
    ) throws -> TLSContext {
        let context = try TLSContext(
            TLS_client_method(), applicationProtocol: applicationProtocol, fallback: fallback)
        context.handshakeThreads = handshakeThreads
        authorities.use(in: context.handle)
        SSL_CTX_set_verify(context.handle, SSL_VERIFY_PEER, Self.verification)
        if let identity { try context.use(identity) }
        if applicationProtocol == nil { return context }
        SSL_CTX_set_alpn_protos(context.handle, context.wireProtocols, UInt32(context.wireProtocols.count))
        return context
    }

    /// A context without authorities and identity, for the connections of this OpenSSL method.
    /// - Throws: ``SetupError``.
    package init(_ method: OpaquePointer?, applicationProtocol: String?, fallback: String? = nil) throws {
        guard let handle = SSL_CTX_new(method) else { throw SetupError(description: "OpenSSL: \(openSSLReason())") }
        self.handle = handle
        self.applicationProtocol = applicationProtocol
        self.fallback = fallback
        wireProtocols = [applicationProtocol, fallback].compactMap(\.self).flatMap {
            [UInt8($0.utf8.count)] + Array($0.utf8)
        }
        _ = cssl_ctx_set_min_tls12(handle)
        _ = cssl_ctx_session_cache_off(handle)
        cssl_ctx_set_safe_options(handle)
        // The peer chooses the group and its key: one of 10,000 bits would hold up the loop for a second.
        guard cssl_ctx_set_groups(handle, Self.groups) == 1, SSL_CTX_set_cipher_list(handle, Self.ciphers) == 1 else {
            throw SetupError(description: "OpenSSL: \(openSSLReason())")
        }
        _ = cssl_ctx_set_maximum_certificates(handle, Self.maximumCertificateBytes)
        SSL_CTX_set_verify_depth(handle, Self.maximumChain)
    }

    /// The groups of the key exchange, and the ciphers of TLS 1.2 that use them. Those of TLS 1.3 are all allowed.
    private static let (groups, ciphers) = ("X25519:P-256:P-384", "ECDHE+AESGCM:ECDHE+CHACHA20")
    /// The largest chain of a peer: its bytes, and the certificates between the peer's own and an authority's.
    private static let (maximumCertificateBytes, maximumChain): (Int, Int32) = (32_768, 6)
    /// The largest key of a certificate, in bits.
    private static let maximumKeyBits: Int32 = 8192

    /// The result of a verification in which ``verification`` has rejected a key.
    private static let keyTooLarge = Int32(X509_V_ERR_APPLICATION_VERIFICATION)

    /// Why a verification failed, as text.
    static func text(ofVerification result: Int) -> String {
        result == Int(keyTooLarge)
            ? "a certificate's key has more than \(maximumKeyBits) bits"
            : String(cString: X509_verify_cert_error_string(result))
    }

    /// Rejects a certificate whose key is too large. OpenSSL calls it for each certificate of a chain.
    private static let verification: @convention(c) (Int32, OpaquePointer?) -> Int32 = { isValid, chain in
        guard isValid == 1, let certificate = X509_STORE_CTX_get_current_cert(chain),
            let key = X509_get0_pubkey(certificate)
        else { return isValid }
        guard EVP_PKEY_get_bits(key) <= maximumKeyBits else {
            X509_STORE_CTX_set_error(chain, keyTooLarge)
            return 0
        }
        return 1
    }

    deinit { SSL_CTX_free(handle) }

    /// Creates OpenSSL's state of one connection. `host` is verified, and sent by SNI if it is a name; `nil` for
    /// servers. Returns `nil` if memory is short, or if the host cannot be verified.
    func newConnection(verifying host: String?) -> OpaquePointer? {
        guard let ssl = SSL_new(handle) else { return nil }
        if let host {
            let isSet: Bool
            if SocketAddress(numericHost: host, port: 0) != nil {
                isSet = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1
            } else {
                isSet = !host.isEmpty && cssl_set_sni(ssl, host) == 1 && SSL_set1_host(ssl, host) == 1
            }
            // Without a host to verify, any trusted certificate would be accepted.
            guard isSet else {
                SSL_free(ssl)
                return nil
            }
        }
        return ssl
    }

    /// Whether ALPN's result is acceptable: the application protocol or, if there is a fallback, that protocol or none.
    /// Any result is, if the context has no application protocol.
    func hasNegotiatedProtocol(on ssl: OpaquePointer) -> Bool {
        guard let applicationProtocol else { return true }
        let selected = Self.negotiatedProtocol(on: ssl)
        return selected == applicationProtocol || fallback.map { selected == $0 || selected == nil } ?? false
    }

    /// The protocol that ALPN selected; `nil` if there was no ALPN.
    static func negotiatedProtocol(on ssl: OpaquePointer) -> String? {
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        SSL_get0_alpn_selected(ssl, &name, &length)
        return length == 0
            ? nil : String(decoding: UnsafeBufferPointer(start: name, count: Int(length)), as: UTF8.self)
    }

    /// Makes the connections present this certificate to their peers.
    /// - Throws: ``SetupError``.
    package func use(_ identity: CertifiedKey) throws {
        var isLeaf = true
        var isUsed = false
        try Self.forEachCertificate(in: identity.certificates) { certificate in
            if isLeaf {
                isUsed = SSL_CTX_use_certificate(handle, certificate) == 1
            } else {
                _ = cssl_ctx_add_chain(handle, certificate)
            }
            isLeaf = false
        }
        guard isUsed else { throw SetupError(description: "OpenSSL rejected the certificate: \(openSSLReason())") }
        guard let key = identity.makeKey() else {
            throw SetupError(description: "no usable PEM private key: \(openSSLReason())")
        }
        defer { EVP_PKEY_free(key) }
        guard SSL_CTX_use_PrivateKey(handle, key) == 1 else {
            throw SetupError(description: "the private key does not match the certificate: \(openSSLReason())")
        }
        // A serial queue, because the other process answers one request after another: with a concurrent queue, each
        // handshake would block one of the threads that all tasks share.
        if identity.isRemote { handshakeThreads = DispatchQueue(label: "TLS signatures") }
    }

    /// Calls `body` with each certificate in a PEM text.
    /// - Throws: ``SetupError`` if there is none.
    static func forEachCertificate(in pem: [UInt8], _ body: (OpaquePointer) -> Void) throws(SetupError) {
        defer { ERR_clear_error() }
        let isFound = withBIO(reading: pem) { bio -> Bool? in
            var isFound = false
            while let certificate = PEM_read_bio_X509(bio, nil, nil, nil) {
                body(certificate)
                X509_free(certificate)
                isFound = true
            }
            return isFound
        }
        guard isFound == true else { throw SetupError(description: "no PEM certificate found") }
    }
}
