// SPDX-License-Identifier: Apache-2.0

import Cryptography
import FoundationEssentials

/// Issues the assertions of a service account, wherever its key is.
package protocol AssertionIssuer: AnyObject, Sendable {
    /// What is not secret about the account.
    var publicAccount: ServiceAccount.Public { get }
    /// Signs an assertion that requests an access token (RFC 7523 §2.1), valid for an hour.
    /// - Parameters:
    ///   - now: Unix time in seconds.
    ///   - result: receives the assertion on the loop, at once or later; `nil` if none can be issued now.
    func assertion(at now: Int64, _ result: @escaping ([UInt8]?) -> Void)
}

/// A Google service account, the node's credential for FCM, read from the JSON file of the Firebase console. Prints as
/// `<redacted>`.
package final class ServiceAccount: AssertionIssuer, Redacted {
    /// What is not secret about an account.
    package struct Public: Codable, Sendable {
        /// The Firebase project.
        package let projectID: String
        /// The endpoint that issues access tokens.
        package let tokenURI: String
    }

    package let publicAccount: Public
    private let clientEmail: String
    private let key: SigningKey

    /// Why a service account file is invalid.
    package struct FormatError: Error, Equatable, Sendable, CustomStringConvertible {
        package let description: String
    }

    /// Parses the bytes of a service account file.
    /// - Throws: ``FormatError``.
    package init(json: [UInt8]) throws(FormatError) {
        struct File: Decodable {
            let type: String?
            let project_id: String?
            let private_key: String?
            let client_email: String?
            let token_uri: String?
        }
        guard let file = try? JSONDecoder().decode(File.self, from: Data(json)) else {
            throw FormatError(description: "not a service account JSON file")
        }
        guard file.type == "service_account" else { throw FormatError(description: "type is not service_account") }
        func needed(_ value: String?, _ name: String) throws(FormatError) -> String {
            guard let value, !value.isEmpty else { throw FormatError(description: "\(name) is missing") }
            return value
        }
        let projectID = try needed(file.project_id, "project_id")
        guard Self.isProjectID(projectID) else {
            throw FormatError(description: "project_id is not a Google project's id")
        }
        clientEmail = try needed(file.client_email, "client_email")
        guard clientEmail.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), clientEmail.contains("@") else {
            throw FormatError(description: "client_email is not an e-mail address")
        }
        publicAccount = Public(projectID: projectID, tokenURI: try needed(file.token_uri, "token_uri"))
        do {
            let text = try needed(file.private_key, "private_key")
            guard !text.contains("\\n") else {
                throw FormatError(
                    description: "private_key has the characters \\n twice escaped in place of line breaks")
            }
            key = try SigningKey(pem: Array(text.utf8), algorithm: .rs256)
        } catch let error as KeyError {
            throw FormatError(description: "private_key: \(error)")
        } catch let error as FormatError {
            throw error
        } catch {
            throw FormatError(description: "private_key cannot be read")
        }
    }

    /// Whether a text may be a project's id, which becomes part of a path (Google Cloud, "Creating and managing projects":
    /// lower-case letters, digits and hyphens; older ones begin with a domain and a colon).
    private static func isProjectID(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                switch $0 {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
                default: "-.:".utf8.contains($0)
                }
            }
    }

    package func assertion(at now: Int64, _ result: @escaping ([UInt8]?) -> Void) { result(assertion(at: now)) }

    /// A signed assertion; `nil` if signing fails.
    package func assertion(at now: Int64) -> [UInt8]? {
        let claims =
            "{\"iss\":\"\(JSONText.escaped(clientEmail))\",\"scope\":\"https://www.googleapis.com/auth/firebase.messaging\","
            + "\"aud\":\"\(JSONText.escaped(publicAccount.tokenURI))\",\"iat\":\(now),\"exp\":\(now + 3600)}"
        return JSONWebToken.signed(claims: claims, keyID: nil, by: key)
    }
}
