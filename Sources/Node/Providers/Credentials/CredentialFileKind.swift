// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Settings

/// The kind of a file that was given as a credential, by the form of its bytes: the kinds that operators often confuse.
/// Holds no part of the content.
enum CredentialFileKind: Equatable {
    case empty, utf16, html, zip
    /// A JSON file, with its `type` if that is one of Google's.
    case json(type: String?)
    /// The app's own `google-services.json`.
    case googleServices
    /// A credential of an OAuth client.
    case oauthClient
    case publicKey, encryptedKey, sshKey, certificate, signingRequest, otherPEM
    /// A private key in PEM form whose lines are damaged.
    case quoted, oneLine, literalLineBreaks, cut
    /// The Base64 of a PEM file without its first and last line.
    case bodyOnly
    /// DER: a key, a certificate, or a `.p12` file.
    case keyDER, certificateDER, packed
    case privateKey

    /// - Returns: `nil` for an unknown kind.
    init?(_ bytes: [UInt8]) {
        if bytes.allSatisfy({ $0 <= 0x20 }) {
            self = .empty
        } else if bytes.starts(with: [0xFF, 0xFE]) || bytes.starts(with: [0xFE, 0xFF])
            || bytes.prefix(64).enumerated().count(where: { $0.offset % 2 == 1 && $0.element == 0 }) > 16
        {
            self = .utf16
        } else if bytes.starts(with: "PK\u{3}\u{4}".utf8) {
            self = .zip
        } else if bytes[0] == 0x30, bytes.count > 8 {
            self.init(der: bytes)
        } else if let text = String(validating: bytes, as: UTF8.self) {
            self.init(text: text)
        } else {
            return nil
        }
    }

    /// An ASN.1 sequence: the first element tells.
    private init?(der bytes: [UInt8]) {
        let content = bytes.dropFirst(bytes[1] < 0x80 ? 2 : 2 + Int(clamping: bytes[1] & 0x7F))
        switch Array(content.prefix(3)) {
        case [2, 1, 3]: self = .packed
        case [2, 1, 0], [2, 1, 1]: self = .keyDER
        case let first where first.first == 0x30: self = .certificateDER
        default: return nil
        }
    }

    private init?(text: String) {
        let text = text.split(separator: "\u{FEFF}").joined()
        let trimmed = text.drop(while: \.isWhitespace)
        switch trimmed.first {
        case "<": self = .html
        case "{", "[": self = Self.json(trimmed)
        default:
            if text.contains("-----BEGIN") {
                self = Self.pem(text)
            } else if trimmed.filter({ !$0.isWhitespace }).count >= 64,
                trimmed.allSatisfy({ $0.isWhitespace || $0.isASCIILetterOrDigit || "+/=".contains($0) })
            {
                self = .bodyOnly
            } else {
                return nil
            }
        }
    }

    private static func json(_ text: Substring) -> CredentialFileKind {
        if text.contains("\"project_info\"") { return .googleServices }
        if text.contains("\"installed\"") || text.contains("\"web\"") { return .oauthClient }
        let types = ["service_account", "external_account", "authorized_user", "impersonated_service_account"]
        return .json(type: types.first { text.contains("\"\($0)\"") })
    }

    private static func pem(_ text: String) -> CredentialFileKind {
        if let first = text.first(where: { !$0.isWhitespace }), "\"'“”„`".contains(first) { return .quoted }
        if text.contains("\\n") { return .literalLineBreaks }
        if text.split(whereSeparator: \.isNewline).count < 3 { return .oneLine }
        let labels: [(label: String, kind: CredentialFileKind)] = [
            ("ENCRYPTED", .encryptedKey), ("OPENSSH", .sshKey), ("PRIVATE KEY", .privateKey),
            ("PUBLIC KEY", .publicKey), ("CERTIFICATE REQUEST", .signingRequest), ("CERTIFICATE", .certificate),
        ]
        let kind = labels.first { text.contains($0.label) }?.kind ?? .otherPEM
        return kind == .privateKey && !text.contains("-----END") ? .cut : kind
    }

    /// What the file is or what is wrong with it, as the predicate of a sentence about the file; `nil` for a private
    /// key, which has the right form.
    var description: String? {
        switch self {
        case .empty: "is empty"
        case .utf16: "is UTF-16 text: save it as plain text (UTF-8)"
        case .html: "is an HTML page, such as of a login or an error"
        case .zip: "is a ZIP archive: unpack it"
        case .json(type: "external_account"?):
            "is for workload identity federation (external_account), which needs a service that this machine is part of"
        case .json(type: "authorized_user"?): "is a person's login of gcloud (authorized_user)"
        case .json(type: "impersonated_service_account"?):
            "is an impersonated service account, without a key of its own"
        case .json: "is a JSON file"
        case .googleServices: "is google-services.json, which belongs in the app"
        case .oauthClient: "is the secret of an OAuth client"
        case .publicKey: "is a public key"
        case .encryptedKey: "is encrypted with a passphrase"
        case .sshKey: "is an SSH key"
        case .certificate: "is a certificate without its private key (PEM)"
        case .signingRequest: "is a request for a certificate"
        case .otherPEM: "is a PEM file, but not of a private key"
        case .quoted: "has quotation marks around the key: remove them"
        case .oneLine: "has the key in one line: BEGIN and END stand in lines of their own"
        case .literalLineBreaks: "has the characters \\n in place of line breaks"
        case .cut: "is cut off: the line with END is missing"
        case .bodyOnly: "lacks the lines with BEGIN PRIVATE KEY and END PRIVATE KEY"
        case .keyDER: "is a key in DER form: convert it with openssl pkey -inform DER"
        case .certificateDER: "is a certificate without its private key (.cer)"
        case .packed: "is a .p12 file"
        case .privateKey: nil
        }
    }
}

/// What a credential file should be, and where to get it.
package enum CredentialFileUse {
    case appleKey, appleCertificate, googleAccount

    /// Why a file cannot be used; `nil` if it can, or if only its password is missing. Does not check who may read the
    /// file.
    package func problem(ofFile file: String) -> String? {
        do {
            let bytes = try ConfiguredFile.read(file, mustBePrivate: false)
            do {
                switch self {
                case .appleKey:
                    // Any ids will do: this checks the key only, and `tocsin init` asks for the ids later.
                    let id = String(repeating: "A", count: AppleKeyName.length)
                    _ = try AppleKey(pem: bytes, keyID: id, teamID: id)
                case .appleCertificate:
                    var none: [UInt8] = []
                    _ = try PKCS12.open(bytes, password: SecretBytes(moving: &none))
                case .googleAccount: _ = try ServiceAccount(json: bytes)
                }
                return nil
            } catch PKCS12Error.wrongPassword {
                return nil
            } catch {
                return problem(bytes, "\(error)")
            }
        } catch {
            return error.text
        }
    }

    /// Why a file cannot be used.
    /// - Parameter error: why it could not be parsed; for a file of the expected kind or of an unknown one.
    func problem(_ bytes: [UInt8], _ error: some CustomStringConvertible) -> String {
        let kind = CredentialFileKind(bytes)
        let what = isExpected(kind) ? nil : kind?.description
        return "\(what ?? error.description): \(source(kind))"
    }

    private func isExpected(_ kind: CredentialFileKind?) -> Bool {
        switch self {
        case .appleKey: kind == .privateKey
        case .appleCertificate: kind == .packed
        case .googleAccount: kind == .json(type: "service_account") || kind == .json(type: nil)
        }
    }

    private func source(_ kind: CredentialFileKind?) -> String {
        switch (self, kind) {
        case (.appleKey, .packed?): "name it as certificate_file, without key_id and team_id"
        case (.appleKey, .encryptedKey?): "use Apple's .p8 file as it is, or decrypt yours with openssl pkcs8"
        case (.appleKey, .json?): "name a file of Google's as service_account_file in [app.fcm]"
        case (.appleKey, _): "use the .p8 file from developer.apple.com, under Keys, unchanged"
        case (.appleCertificate, .privateKey?): "name a .p8 file as key_file, with key_id and team_id"
        case (.appleCertificate, _):
            "export the certificate together with its private key as .p12, from Keychain Access"
        case (.googleAccount, _):
            "use the file from the Firebase console unchanged: Project settings, Service accounts, Generate new private key"
        }
    }
}
