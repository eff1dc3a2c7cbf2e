// SPDX-License-Identifier: Apache-2.0

import Cryptography
import FoundationEssentials
import Providers
import Settings
import StandIns
import TestSupport
import Testing
import Tor

@testable import NodeConfiguration

/// What people put in the place of a credential file, and what they are told.
@Suite(.tags(.sockets)) struct CredentialFileTests {
    private let directory: String

    init() throws {
        directory = "\(FileManager.default.temporaryDirectory.path())/tocsin-files-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
    }

    private func end() { try? FileManager.default.removeItem(atPath: directory) }

    private func write(_ bytes: [UInt8], _ name: String) throws -> String {
        let file = "\(directory)/\(name)"
        try PrivateFile.create(file, holding: bytes)
        return file
    }

    /// The reason why a file cannot be the credential; empty if it can.
    private func problem(_ bytes: [UInt8], as make: (String) -> CredentialReference) throws -> String {
        let file = try write(bytes, UUID().uuidString)
        do {
            _ = try CredentialFiles().load(make(file))
            return ""
        } catch {
            return error.text
        }
    }

    private func appleKey(_ file: String) -> CredentialReference {
        AppleKeyCredential.reference(file: file, keyID: "KEY0000001", teamID: "TEAM000001")
    }

    private func google(_ file: String) -> CredentialReference { GoogleCredential.reference(file: file) }

    /// A private key in PEM form, and its Base64 lines.
    private static let pem = String(decoding: SigningKey.generate(.es256).pem, as: UTF8.self)
    private static var body: String {
        pem.split(separator: "\n").filter { !$0.hasPrefix("-") }.joined(separator: "\n")
    }

    @Test(arguments: [
        ("", "is empty"), (" \n", "is empty"), ("\"\(pem)\"", "has quotation marks around the key"),
        (pem.replacing("\n", with: "\\n"), "has the characters \\n in place of line breaks"),
        (pem.replacing("\n", with: ""), "has the key in one line"),
        (pem.replacing("\n", with: " "), "has the key in one line"),
        (body, "lacks the lines with BEGIN PRIVATE KEY"), (body.replacing("\n", with: ""), "lacks the lines"),
        (String(pem.prefix(pem.count - 30)), "is cut off"),
        (pem.replacing("PRIVATE KEY", with: "PUBLIC KEY"), "is a public key"),
        (pem.replacing("PRIVATE KEY", with: "OPENSSH PRIVATE KEY"), "is an SSH key"),
        (pem.replacing("PRIVATE KEY", with: "CERTIFICATE"), "is a certificate without its private key"),
        (pem.replacing("PRIVATE KEY", with: "CERTIFICATE REQUEST"), "is a request for a certificate"),
        ("<!DOCTYPE html><html>Sign in</html>", "is an HTML page"),
        ("{\"type\": \"service_account\"}", "is a JSON file"),
        ("PK\u{3}\u{4}rest of it", "is a ZIP archive"), ("hello", "not a private key in PEM form"),
    ])
    func `a damaged key of Apple's is recognised`(_ text: String, _ says: String) throws {
        defer { end() }
        let problem = try problem(Array(text.utf8), as: appleKey)
        #expect(problem.hasPrefix(says) && problem.contains(": "), "\(says): \(problem)")
        for line in Self.body.split(separator: "\n") { #expect(!problem.contains(line.prefix(16))) }
    }

    @Test func `what editors of Windows do to a file is no fault, UTF-16 excepted`() throws {
        defer { end() }
        let windows: [UInt8] = [0xEF, 0xBB, 0xBF] + Array(Self.pem.replacing("\n", with: "\r\n").utf8)
        #expect(try problem(windows, as: appleKey) == "")
        let utf16: [UInt8] = Self.pem.utf8.flatMap { [$0, 0] as [UInt8] }
        for bytes in [[0xFF, 0xFE] + utf16, utf16] as [[UInt8]] {
            #expect(try problem(bytes, as: appleKey).hasPrefix("is UTF-16 text"))
        }
    }

    @Test func `keys and certificates in other forms are recognised`() async throws {
        defer { end() }
        func openssl(_ arguments: String) async throws -> [UInt8] {
            let output = "\(directory)/output-\(UUID().uuidString)"
            let process = try await ChildProcess.output(
                of: "sh", ["-c", "cd \(directory) && openssl \(arguments) -out \(output)"])
            #expect(process.isSuccess, "\(process.text)")
            return Array(FileManager.default.contents(atPath: output) ?? Data())
        }
        _ = try write(Array(Self.pem.utf8), "key.pem")
        let certificate = try await openssl("req -x509 -key key.pem -subj /CN=Apple -days 2")
        _ = try write(certificate, "certificate.pem")
        let der = try await openssl("x509 -in certificate.pem -outform DER")
        let packed = try await openssl("pkcs12 -export -inkey key.pem -in certificate.pem -passout pass:")
        let unprotected = try await openssl("pkcs12 -export -nomac -inkey key.pem -in certificate.pem -passout pass:")
        let keyDER = try await openssl("pkcs8 -topk8 -nocrypt -in key.pem -outform DER")
        let encrypted = try await openssl("pkcs8 -topk8 -in key.pem -passout pass:secret")
        func certificateProblem(_ bytes: [UInt8]) throws -> String {
            try problem(bytes) { AppleCertificateCredential.reference(file: $0, passwordFile: nil) }
        }
        #expect(try certificateProblem(packed) == "")
        #expect(try certificateProblem(unprotected).hasPrefix("has no integrity protection"))
        #expect(try certificateProblem(der).hasPrefix("is a certificate without its private key (.cer)"))
        #expect(try certificateProblem(certificate).hasPrefix("is a certificate without its private key (PEM)"))
        #expect(try certificateProblem(Array(Self.pem.utf8)).contains("name a .p8 file as key_file"))
        #expect(try problem(packed, as: appleKey).hasPrefix("is a .p12 file: name it as certificate_file"))
        #expect(try problem(der, as: appleKey).hasPrefix("is a certificate without its private key (.cer)"))
        #expect(try problem(keyDER, as: appleKey).hasPrefix("is a key in DER form"))
        #expect(try problem(encrypted, as: appleKey).hasPrefix("is encrypted with a passphrase"))
        // Lengths that lead out of the file.
        for length: UInt8 in [0x00, 0x7F, 0x80, 0x84, 0xFF] {
            #expect(try problem([0x30, length, 1, 2, 3, 4, 5, 6, 7, 8], as: appleKey) != "")
        }
    }

    /// A service account with some fields replaced.
    private func account(_ fields: [String: String], from text: String) -> [UInt8] {
        var text = text
        for (old, new) in fields { text = text.replacing(old, with: new) }
        return Array(text.utf8)
    }

    @Test func `a damaged service account is recognised`() throws {
        defer { end() }
        let key = String(decoding: SigningKey.generate(.rs256).pem, as: UTF8.self).replacing("\n", with: "\\n")
        let valid = """
            {"type": "service_account", "project_id": "example-1", "private_key": "\(key)",
             "client_email": "a@example-1.iam.gserviceaccount.com", "token_uri": "https://oauth2.googleapis.com/token"}
            """
        #expect(try problem(Array(valid.utf8), as: google) == "")
        #expect(try problem([0xEF, 0xBB, 0xBF] + Array(valid.utf8), as: google) == "")
        let cases: [([String: String], String)] = [
            (["\\n": "\\\\n"], "private_key has the characters \\n twice escaped"),
            (["service_account": "external_account"], "is for workload identity federation"),
            (["service_account": "authorized_user"], "is a person's login of gcloud"),
            (["example-1\"": "example\\n1\""], "project_id is not a Google project's id"),
            (["example-1\"": "../x\""], "project_id is not a Google project's id"),
            (["a@": "a b@"], "client_email is not an e-mail address"), (["{": "<html>{"], "is an HTML page"),
            (["{": "{\"project_info\": {}, ", "service_account": "x"], "is google-services.json"),
            (["{": "{\"installed\": {}, ", "service_account": "x"], "is the secret of an OAuth client"),
        ]
        for (fields, says) in cases {
            let problem = try problem(account(fields, from: valid), as: google)
            #expect(problem.hasPrefix(says) && problem.contains("Firebase console"), "\(problem)")
            #expect(!problem.contains(key.prefix(60).suffix(20)))
        }
    }

    // MARK: Fields

    private func fieldProblem(_ app: String) -> String {
        do {
            _ = try Configuration(text: "[[app]]\nname = \"a\"\n\(app)", file: "/tocsin.toml")
            return ""
        } catch let error as ConfigurationError {
            return error.problem
        } catch {
            return "\(error)"
        }
    }

    @Test(arguments: [
        ("KEY0000001", "TEAM000001", "org.example.app", ""), ("key0000001", "TEAM000001", "a", "KEY0000001"),
        ("KEY0000001", "team000001", "a", "TEAM000001"), ("KEY0000001", "KEY0000001", "a", "is the same as key_id"),
        ("KEY0000001", "TEAM000001", "TEAM000001.org.example.app", "the bundle id alone is org.example.app"),
        ("KEY0000001", "TEAM000001", "9ABCDE1234.app", "begins with a team id"),
    ])
    func `ids of Apple's are checked when they are read`(
        _ key: String, _ team: String, _ topic: String, _ says: String
    ) {
        let problem = fieldProblem(
            "[app.apns]\ntopic = \"\(topic)\"\nkey_file = \"x\"\nkey_id = \"\(key)\"\nteam_id = \"\(team)\"")
        #expect(says.isEmpty ? problem.isEmpty : problem.contains(says), "\(problem)")
    }

    @Test(arguments: [
        ("mailto:operator@example.org", true), ("https://example.org/tocsin", true), ("mailto:<a@example.org>", false),
        ("mailto:a@localhost", false), ("mailto:example.org", false), ("mailto:a@b@example.org", false),
        ("https://localhost/", false), ("https://node.local", false), ("mailto:a@example..org", false),
    ])
    func `a contact that Apple refuses is refused`(_ contact: String, _ isValid: Bool) {
        #expect(fieldProblem("[app.web]\ncontact = \"\(contact)\"").isEmpty == isValid)
    }
}
