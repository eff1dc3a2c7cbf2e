// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop

/// The kind of certificate that a simulated push service presents.
package enum ServedCertificate: String, Sendable, CaseIterable {
    /// A valid certificate of the simulator's authority.
    case good
    /// A certificate of an unknown authority.
    case untrusted
    /// An expired certificate.
    case expired
    /// A certificate for another host.
    case otherName = "other-name"
}

/// The protocols that a simulated push service speaks.
package enum ServedProtocols: Sendable {
    /// HTTP/2 only, as Apple and Google do.
    case http2
    /// HTTP/1.1 only, as many self-hosted push servers do.
    case http1
    /// The one that the client offers first; HTTP/1.1 with a client without ALPN.
    case both
}

/// Issues the certificates of the simulated push services.
struct ServerCertificates {
    let authority: CertificateAuthority
    /// Host names and addresses in certificates, except those of ``ServedCertificate/otherName``.
    let names: [String]
    /// Validity of certificates in seconds from now, except those of ``ServedCertificate/expired``.
    let validFor: Int

    /// Returns a server-side TLS context with a new certificate.
    /// - Parameters:
    ///   - requestsClientCertificate: whether the server requests a client certificate of the authority.
    ///   - protocols: the ALPN protocols that the server speaks.
    func context(
        _ certificate: ServedCertificate, requestsClientCertificate: Bool, protocols: ServedProtocols
    ) throws -> TLSContext {
        let issuer = certificate == .untrusted ? CertificateAuthority(name: "Unknown authority") : authority
        let identity = issuer.issue(
            subject: "simulated push services",
            purpose: .server(names: certificate == .otherName ? ["elsewhere.invalid"] : names),
            validFor: certificate == .expired ? -60 : validFor)
        return try TLSContext.server(
            identity: identity, clientAuthorities: requestsClientCertificate ? authority.pem : nil,
            applicationProtocol: protocols == .http1 ? "http/1.1" : "h2",
            fallback: protocols == .http2 ? nil : "http/1.1")
    }
}
