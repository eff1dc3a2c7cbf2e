// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop

/// Which certificate a stand-in shows.
package enum ServedCertificate: String, Sendable, CaseIterable {
    /// The one that a node with the stand-ins' authority trusts.
    case good
    /// Of an authority that nobody knows.
    case untrusted
    /// Its time is over.
    case expired
    /// For another host.
    case otherName = "other-name"
}

/// Issues the stand-ins' certificates.
struct ServerCertificates {
    let authority: CertificateAuthority
    /// Host names and addresses of the good ones.
    let names: [String]
    /// Seconds from now that the good ones are good for.
    let validFor: Int

    /// The server's side of TLS with a fresh certificate.
    /// - Parameter asksClients: whether clients are asked for a certificate of the authority.
    func context(_ certificate: ServedCertificate, asksClients: Bool) throws -> TLSContext {
        let issuer = certificate == .untrusted ? CertificateAuthority(name: "Unknown authority") : authority
        let identity = issuer.issue(
            subject: "simulated push services",
            purpose: .server(names: certificate == .otherName ? ["elsewhere.invalid"] : names),
            validFor: certificate == .expired ? -60 : validFor)
        let privateKey = identity.privateKey.withBytes { span in span.withUnsafeBytes { Array($0) } }
        return try TLSContext.server(
            identity: TLSContext.Identity(certificates: identity.certificates, privateKey: privateKey),
            clientAuthorities: asksClients ? authority.pem : nil, applicationProtocol: "h2")
    }
}
