// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Glibc
import Providers

/// A credential for APNs or FCM, read from its files.
package enum Credential {
    /// A key for APNs provider tokens.
    case appleKey(SigningKey, keyID: String, teamID: String)
    /// A client certificate for APNs.
    case appleCertificate(CertifiedKey, CertificateFacts)
    /// A service account for FCM.
    case google(ServiceAccount, tokenURL: ServiceURL)

    /// The reason why a credential cannot be used. Contains no part of the credential.
    package typealias Problem = ConfiguredFile.Problem

    /// A callback that receives the name and the contents of each file that is read.
    package typealias ReadObserver = (_ file: String, _ bytes: [UInt8]) -> Void

    /// Reads a credential for APNs.
    /// - Throws: ``Problem``.
    package init(_ credential: Configuration.APNsCredential, reading: ReadObserver = { _, _ in }) throws(Problem) {
        switch credential {
        case .token(let file, let keyID, let teamID):
            let pem = try Self.read(file, reading)
            do {
                self = .appleKey(try SigningKey(pem: pem, algorithm: .es256), keyID: keyID, teamID: teamID)
            } catch {
                throw Problem(file: file, text: "\(error): use the .p8 file from developer.apple.com, under Keys")
            }
        case .certificate(let file, let passwordFile):
            let packed = try Self.read(file, reading)
            var password: [UInt8] = []
            if let passwordFile {
                password = try Self.read(passwordFile, reading)
                while let last = password.last, last == 10 || last == 13 { password.removeLast() }
            }
            self = try Self.certificate(packed, in: file, &password, hasPasswordFile: passwordFile != nil)
        }
    }

    /// Reads a credential for FCM.
    /// - Throws: ``Problem``.
    package init(serviceAccountFile file: String, reading: ReadObserver = { _, _ in }) throws(Problem) {
        let json = try Self.read(file, reading)
        let account: ServiceAccount
        do {
            account = try ServiceAccount(json: json)
        } catch {
            throw Problem(file: file, text: error.description)
        }
        guard let url = ServiceURL(account.tokenURI) else {
            throw Problem(file: file, text: "token_uri is not an https URL: use the file from Firebase unchanged")
        }
        self = .google(account, tokenURL: url)
    }

    private static func certificate(
        _ packed: [UInt8], in file: String, _ password: inout [UInt8], hasPasswordFile: Bool
    ) throws(Problem) -> Credential {
        let certified: CertifiedKey
        do {
            certified = try PKCS12.open(packed, password: SecretBytes(moving: &password))
        } catch .wrongPassword {
            throw Problem(
                file: file,
                text: hasPasswordFile
                    ? "the password in certificate_password_file is wrong"
                    : "requires a password: write it to a file of mode 600 and name that in certificate_password_file")
        } catch {
            throw Problem(file: file, text: error.description)
        }
        guard let facts = CertificateFacts(pem: certified.certificates) else {
            throw Problem(file: file, text: "its certificate cannot be parsed: export it again")
        }
        return .appleCertificate(certified, facts)
    }

    private static func read(_ file: String, _ reading: ReadObserver) throws(Problem) -> [UInt8] {
        let bytes = try ConfiguredFile.read(file, mustBePrivate: true)
        reading(file, bytes)
        return bytes
    }
}
