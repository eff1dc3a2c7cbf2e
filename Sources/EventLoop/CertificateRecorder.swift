// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import Cryptography

/// Records the expiry time of the certificate that the last server presented, once `context` has verified it. The
/// recorder takes over the context's info callback: use one recorder per context.
package final class CertificateRecorder {
    /// The context to use for connecting.
    package let context: TLSContext
    /// When the certificate expires, in Unix time in seconds; `nil` before the first handshake.
    package private(set) var notAfter: Int64?

    // SSL_CB_HANDSHAKE_DONE, a macro that Swift does not import.
    private static let handshakeDone: Int32 = 0x20

    /// Observes the handshakes of `context` until the recorder is released.
    package init(of context: TLSContext) {
        self.context = context
        SSL_CTX_set_ex_data(context.handle, 0, Unmanaged.passUnretained(self).toOpaque())
        SSL_CTX_set_info_callback(context.handle) { ssl, event, _ in
            guard event & CertificateRecorder.handshakeDone != 0, let ssl,
                let recorder = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), 0)
            else { return }
            Unmanaged<CertificateRecorder>.fromOpaque(recorder).takeUnretainedValue().record(ssl)
        }
    }

    deinit {
        SSL_CTX_set_info_callback(context.handle, nil)
        SSL_CTX_set_ex_data(context.handle, 0, nil)
    }

    private func record(_ ssl: OpaquePointer) {
        guard let certificate = SSL_get1_peer_certificate(ssl) else { return }
        defer { X509_free(certificate) }
        notAfter = certificateValidity(of: certificate).notAfter
    }
}
