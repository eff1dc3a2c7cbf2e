// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Settings
import Time

/// A client certificate for APNs with its key, from a `.p12` file.
package struct AppleCertificateCredential: Credential {
    package static let kind = "apple-certificate"

    package let identity: CertifiedKey
    package let certificate: CertificateFacts

    fileprivate struct Question: Codable {
        /// What to sign; see `RemoteKey`.
        var input: Base64Bytes
        var padding: Int32
    }

    package static func reference(file: String, passwordFile: String?) -> CredentialReference {
        CredentialReference(Self.self, files: [file] + [passwordFile].compactMap(\.self))
    }

    package init(_ reference: CredentialReference, _ contents: [[UInt8]]) throws(CredentialProblem) {
        let file = reference.files[0]
        let hasPasswordFile = contents.count > 1
        var password = hasPasswordFile ? contents[1] : []
        while let last = password.last, last == 10 || last == 13 { password.removeLast() }
        do {
            identity = try PKCS12.open(contents[0], password: SecretBytes(moving: &password))
        } catch .wrongPassword {
            throw CredentialProblem(
                file: file,
                text: hasPasswordFile
                    ? "the password in certificate_password_file is wrong"
                    : "requires a password: write it to a file of mode 600 and name that in certificate_password_file")
        } catch {
            throw CredentialProblem(file: file, text: CredentialFileUse.appleCertificate.problem(contents[0], error))
        }
        certificate = try Self.facts(of: identity.certificates, in: file)
    }

    package init(
        _ reference: CredentialReference, facts: [UInt8], key: any RemoteKeyAccess
    ) throws(CredentialProblem) {
        certificate = try Self.facts(of: facts, in: reference.files[0])
        identity = CertifiedKey(
            certificates: facts, privateKey: .remote(RemoteCertificateKey(key)), notAfter: certificate.notAfter)
    }

    /// The fields of a certificate in PEM form.
    private static func facts(of certificates: [UInt8], in file: String) throws(CredentialProblem) -> CertificateFacts {
        guard let facts = CertificateFacts(pem: certificates) else {
            throw CredentialProblem(file: file, text: "its certificate cannot be parsed: export it again")
        }
        return facts
    }

    /// The certificates in PEM form.
    package var facts: [UInt8] { identity.certificates }

    package var key: any HeldKey { HeldCertificateKey(certified: identity) }
}

/// The private key of a certificate, in another process.
private final class RemoteCertificateKey: RemoteKey {
    private let key: any RemoteKeyAccess

    init(_ key: any RemoteKeyAccess) { self.key = key }

    func sign(_ input: [UInt8], padding: Int32) -> [UInt8]? {
        key.askBlocking(AppleCertificateCredential.Question(input: Base64Bytes(input), padding: padding).json)
    }
}

/// Signs for TLS connections to Apple.
private struct HeldCertificateKey: HeldKey {
    let certified: CertifiedKey
    /// Enough for a node, which opens several connections at once and reconnects with pauses.
    private var limit = UseLimit(burst: 60, perSecond: 1)

    init(certified: CertifiedKey) { self.certified = certified }

    mutating func answer(
        _ question: [UInt8], about file: String, at time: ClockReading, _ issued: inout IssuedTokens
    ) -> KeyAnswer {
        guard let question = AppleCertificateCredential.Question(ifJSON: question), limit.take(at: time.monotonic),
            let signature = certified.sign(question.input.bytes, padding: question.padding)
        else { return .refused }
        return KeyAnswer(signature, use: KeyAnswer.Use(what: "TLS connection to Apple signed", file: file))
    }
}
