// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Glibc
import Providers

/// A credential for APNs or FCM, ready for use.
package enum Credential {
    /// A key for APNs provider tokens.
    case appleKey(any ProviderTokenIssuer)
    /// A client certificate for APNs.
    case appleCertificate(CertifiedKey, CertificateFacts)
    /// A service account for FCM.
    case google(any AssertionIssuer, tokenURL: ServiceURL)

    /// The reason why a credential cannot be used. Contains no part of the credential.
    package typealias Problem = ConfiguredFile.Problem

    /// The files of a credential, as the configuration names them.
    package enum Reference: Hashable, Codable, Sendable {
        case apple(Configuration.APNsCredential)
        /// The JSON file of a service account.
        case google(file: String)

        /// The names of the files.
        package var files: [String] {
            switch self {
            case .apple(.token(let file, _, _)), .google(let file): [file]
            case .apple(.certificate(let file, let passwordFile)): [file] + [passwordFile].compactMap(\.self)
            }
        }
    }

    /// A credential with a hash of its files.
    package struct Loaded {
        package let credential: Credential
        /// Differs if the contents of a file differ.
        package let fingerprint: Digest256

        package init(_ credential: Credential, fingerprint: Digest256) {
            self.credential = credential
            self.fingerprint = fingerprint
        }
    }
}

extension Configuration {
    /// All credentials, those of an app after each other.
    package var credentials: [Credential.Reference] {
        apps.flatMap { app in
            [
                app.apns.map { Credential.Reference.apple($0.credential) },
                app.fcm.map { .google(file: $0.serviceAccountFile) },
            ].compactMap(\.self)
        }
    }

    /// Keys of the node's own, which it makes if they do not exist.
    package var ownKeyFiles: [String] {
        ([spool?.keyFile] + apps.map { $0.web?.keyFile }).compactMap(\.self)
    }

    /// Whether a file is beneath the state directory, where the node can write, and read for itself.
    /// Also where the path only leads through it: the node could make what it writes there a link to any file.
    package func isInState(_ file: String) -> Bool {
        let state = canonicalState
        // The file itself may be a link.
        return (Self.directories(of: file) + Self.directories(of: Self.canonical(file))).contains { directory in
            let path = Self.canonical(directory)
            return path == state || path.hasPrefix("\(state)/")
        }
    }

    /// The state directory without links, `..` and slashes at its end.
    package var canonicalState: String { Self.canonical(state) }

    /// A directory and those above it, as the path names them.
    private static func directories(of file: String) -> [String] {
        var parts = file.split(separator: "/", omittingEmptySubsequences: true)
        var found: [String] = []
        while !parts.isEmpty {
            parts.removeLast()
            found.append((file.hasPrefix("/") ? "/" : "") + parts.joined(separator: "/"))
        }
        return found
    }

    /// A path without links, `..` and slashes at its end; as it is where nothing exists.
    private static func canonical(_ path: String) -> String {
        guard let resolved = realpath(path, nil) else {
            return path.split(separator: "/").reduce("") { $0 + "/" + $1 }
        }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    /// The other files that the configuration names and the node reads: keys shared with others, and authorities. Those in
    /// the state directory are not among them: an attacker in the node could make each a link to a file of keys.
    package var otherFiles: [String] {
        let shared = [
            services.apnsTrustFile, services.fcmTrustFile, cluster?.keyFile, cluster?.passwordFile, cluster?.trustFile,
            canary?.phoneFile,
        ]
        let ofApps = apps.flatMap { [$0.upstream?.siteKeyFile, $0.web?.trustFile] }
        return (shared + ofApps).compactMap(\.self).filter { !isInState($0) }
    }
}

/// Where a node gets its credentials from: their files, or the process that holds the keys.
package protocol CredentialSource: Sendable {
    /// A credential, ready for use.
    func load(_ reference: Credential.Reference) throws(Credential.Problem) -> Credential.Loaded
}

/// The credentials' own files, whose keys are then in this process.
package struct CredentialFiles: CredentialSource {
    package init() {}

    package func load(_ reference: Credential.Reference) throws(Credential.Problem) -> Credential.Loaded {
        var contents: [[UInt8]] = []
        for file in reference.files { contents.append(try ConfiguredFile.read(file, mustBePrivate: true)) }
        let fingerprint = BLAKE2b.hash256(contents.flatMap { BLAKE2b.hash256($0).bytes })
        return Credential.Loaded(try Self.credential(reference, contents), fingerprint: fingerprint)
    }

    private static func credential(
        _ reference: Credential.Reference, _ contents: [[UInt8]]
    ) throws(Credential.Problem) -> Credential {
        switch reference {
        case .apple(.token(let file, let keyID, let teamID)):
            do {
                return .appleKey(try AppleKey(pem: unmarked(contents[0]), keyID: keyID, teamID: teamID))
            } catch {
                throw Credential.Problem(file: file, text: CredentialFileUse.appleKey.problem(contents[0], error))
            }
        case .apple(.certificate(let file, let passwordFile)):
            var password = passwordFile == nil ? [] : unmarked(contents[1])
            while let last = password.last, last == 10 || last == 13 { password.removeLast() }
            return try certificate(contents[0], in: file, &password, hasPasswordFile: passwordFile != nil)
        case .google(let file):
            let account: ServiceAccount
            do {
                account = try ServiceAccount(json: unmarked(contents[0]))
            } catch {
                throw Credential.Problem(file: file, text: CredentialFileUse.googleAccount.problem(contents[0], error))
            }
            return .google(account, tokenURL: try tokenURL(of: account.publicAccount, in: file))
        }
    }

    /// A file without the byte order mark that editors of Windows put before it.
    private static func unmarked(_ bytes: [UInt8]) -> [UInt8] {
        bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? Array(bytes.dropFirst(3)) : bytes
    }

    /// The endpoint of an account's access tokens.
    package static func tokenURL(
        of account: ServiceAccount.Public, in file: String
    ) throws(Credential.Problem) -> ServiceURL {
        guard let url = ServiceURL(account.tokenURI) else {
            throw Credential.Problem(
                file: file, text: "token_uri is not an https URL: use the file from Firebase unchanged")
        }
        return url
    }

    private static func certificate(
        _ packed: [UInt8], in file: String, _ password: inout [UInt8], hasPasswordFile: Bool
    ) throws(Credential.Problem) -> Credential {
        let certified: CertifiedKey
        do {
            certified = try PKCS12.open(packed, password: SecretBytes(moving: &password))
        } catch .wrongPassword {
            throw Credential.Problem(
                file: file,
                text: hasPasswordFile
                    ? "the password in certificate_password_file is wrong"
                    : "requires a password: write it to a file of mode 600 and name that in certificate_password_file")
        } catch {
            throw Credential.Problem(file: file, text: CredentialFileUse.appleCertificate.problem(packed, error))
        }
        return .appleCertificate(certified, try facts(of: certified.certificates, in: file))
    }

    /// The fields of a certificate in PEM form.
    package static func facts(of certificates: [UInt8], in file: String) throws(Credential.Problem) -> CertificateFacts
    {
        guard let facts = CertificateFacts(pem: certificates) else {
            throw Credential.Problem(file: file, text: "its certificate cannot be parsed: export it again")
        }
        return facts
    }
}
