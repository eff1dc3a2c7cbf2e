// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import Cryptography

/// The certificate authorities that peers' certificates are verified against. TLS contexts share them, because those of
/// the system need a megabyte of memory.
package final class TrustedAuthorities: @unchecked Sendable {
    // Unchecked: after init, only OpenSSL changes the X509_STORE, under the store's own lock.

    private let store: OpaquePointer

    /// - Parameters:
    ///   - isSystemTrusted: whether the authorities of this machine's system are trusted.
    ///   - pem: PEM certificates to trust.
    /// - Throws: `TLSContext.SetupError` if `pem` contains no certificate.
    package init(ofSystem isSystemTrusted: Bool = true, and pem: [UInt8]? = nil) throws(TLSContext.SetupError) {
        guard let store = X509_STORE_new() else {
            throw TLSContext.SetupError(description: "OpenSSL: \(openSSLReason())")
        }
        self.store = store
        if isSystemTrusted { X509_STORE_set_default_paths(store) }
        // If the system has no authorities, OpenSSL queues errors, which a later call must not report.
        ERR_clear_error()
        if let pem { try TLSContext.forEachCertificate(in: pem) { X509_STORE_add_cert(store, $0) } }
    }

    deinit { X509_STORE_free(store) }

    /// Makes the connections of an SSL_CTX verify against these authorities.
    package func use(in context: OpaquePointer) { SSL_CTX_set1_cert_store(context, store) }
}
