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

/// Issues the certificates of the simulated push services.
struct ServerCertificates {
    let authority: CertificateAuthority
    /// Host names and addresses in certificates, except those of ``ServedCertificate/otherName``.
    let names: [String]
    /// Validity of certificates in seconds from now, except those of ``ServedCertificate/expired``.
    let validFor: Int

    /// Returns a server-side TLS context with a new certificate.
    /// - Parameter requestsClientCertificate: whether the server requests a client certificate of the authority.
    func context(_ certificate: ServedCertificate, requestsClientCertificate: Bool) throws -> TLSContext {
        let issuer = certificate == .untrusted ? CertificateAuthority(name: "Unknown authority") : authority
        let identity = issuer.issue(
            subject: "simulated push services",
            purpose: .server(names: certificate == .otherName ? ["elsewhere.invalid"] : names),
            validFor: certificate == .expired ? -60 : validFor)
        return try TLSContext.server(
            identity: identity, clientAuthorities: requestsClientCertificate ? authority.pem : nil,
            applicationProtocol: "h2")
    }
}
