// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import Cryptography
import EventLoop

extension TLSContext {
    /// A context for incoming connections.
    /// - Parameters:
    ///   - clientAuthorities: if given, the server requests a client certificate. The handshake fails if these
    ///     authorities (PEM) did not issue it; a client without a certificate is accepted.
    ///   - applicationProtocol: an ALPN protocol that the server accepts.
    ///   - fallback: another one, also for clients without ALPN; `nil` to accept the first one only. If a client offers
    ///     both, its order decides.
    /// - Throws: ``TLSContext/SetupError``.
    package static func server(
        identity: CertifiedKey, clientAuthorities: [UInt8]? = nil, applicationProtocol: String,
        fallback: String? = nil
    ) throws -> TLSContext {
        let context = try TLSContext(TLS_server_method(), applicationProtocol: applicationProtocol, fallback: fallback)
        try context.use(identity)
        if let clientAuthorities {
            try TrustedAuthorities(ofSystem: false, and: clientAuthorities).use(in: context.handle)
            SSL_CTX_set_verify(context.handle, SSL_VERIFY_PEER, nil)
        }
        SSL_CTX_set_alpn_select_cb(
            context.handle,
            { _, output, outputLength, offered, offeredLength, argument in
                let accepted = Unmanaged<TLSContext>.fromOpaque(argument!).takeUnretainedValue().wireProtocols
                var selected: UnsafeMutablePointer<UInt8>?
                // The selected name is part of the first list, which OpenSSL keeps.
                let result = SSL_select_next_proto(
                    &selected, outputLength, offered, offeredLength, accepted, UInt32(accepted.count))
                guard result == OPENSSL_NPN_NEGOTIATED else { return SSL_TLSEXT_ERR_ALERT_FATAL }
                output?.pointee = UnsafePointer(selected)
                return SSL_TLSEXT_ERR_OK
            }, Unmanaged.passUnretained(context).toOpaque())
        return context
    }
}
