// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Glibc
import Providers

/// A credential that could be read.
package enum Credential {
    case appleKey(SigningKey, keyID: String, teamID: String)
    case appleCertificate(TLSContext.Identity, CertificateFacts)
    case google(ServiceAccount, tokenURL: ServiceURL)

    /// Why a file is no such credential, in words that hold nothing of it.
    package struct Problem: Error, Equatable {
        package let file: String
        /// Does not name the file.
        package let text: String

        /// - Parameters: as the properties of the same names.
        package init(file: String, text: String) {
            self.file = file
            self.text = text
        }
    }

    /// Is shown each file that is read, and the bytes in it.
    package typealias Reader = (_ file: String, _ bytes: [UInt8]) -> Void

    /// Reads what a configuration names for Apple.
    /// - Throws: ``Problem``.
    package init(_ credential: Configuration.APNsCredential, reading: Reader = { _, _ in }) throws(Problem) {
        switch credential {
        case .token(let file, let keyID, let teamID):
            let pem = try Self.read(file, reading)
            do {
                self = .appleKey(try SigningKey(pem: pem, algorithm: .es256), keyID: keyID, teamID: teamID)
            } catch {
                throw Problem(file: file, text: "\(error): take the .p8 file that developer.apple.com gives under Keys")
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

    /// Reads what a configuration names for Google.
    /// - Throws: ``Problem``.
    package init(serviceAccountFile file: String, reading: Reader = { _, _ in }) throws(Problem) {
        let json = try Self.read(file, reading)
        let account: ServiceAccount
        do {
            account = try ServiceAccount(json: json)
        } catch {
            throw Problem(file: file, text: error.description)
        }
        guard let url = ServiceURL(account.tokenURI) else {
            throw Problem(file: file, text: "token_uri is not an https address: take the file as Firebase gives it")
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
                    ? "the password in certificate_password_file does not open it"
                    : "it has a password: write that into a file of mode 600, and name it in certificate_password_file")
        } catch {
            throw Problem(file: file, text: error.description)
        }
        guard let facts = CertificateFacts(pem: certified.certificates) else {
            throw Problem(file: file, text: "its certificate cannot be read: export it again")
        }
        let key = certified.privateKey.withBytes { span in span.withUnsafeBytes { Array($0) } }
        return .appleCertificate(
            TLSContext.Identity(certificates: certified.certificates, privateKey: key), facts)
    }

    private static func read(_ file: String, _ reading: Reader) throws(Problem) -> [UInt8] {
        do {
            let bytes = try ConfiguredFile.read(file, mustBePrivate: true)
            reading(file, bytes)
            return bytes
        } catch {
            throw Problem(file: file, text: error.text)
        }
    }
}
