// SPDX-License-Identifier: Apache-2.0

import Cryptography
import FoundationEssentials

/// A Google service account: who the node is to Google, from the JSON file that the Firebase console gives.
/// Prints as `<redacted>`.
package struct ServiceAccount: Sendable, Redacted {
    package let projectID: String
    let clientEmail: String
    let key: SigningKey
    /// Where access tokens are fetched.
    package let tokenURI: String

    /// What is wrong with a service account file.
    package struct FormatError: Error, Equatable, Sendable, CustomStringConvertible {
        package let description: String
    }

    /// Reads the file's bytes.
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
            throw FormatError(description: "not a service account in JSON form")
        }
        guard file.type == "service_account" else {
            throw FormatError(
                description: "its type is not service_account: take the file that Firebase gives under"
                    + " Project settings, Service accounts, Generate new private key")
        }
        func needed(_ value: String?, _ name: String) throws(FormatError) -> String {
            guard let value, !value.isEmpty else { throw FormatError(description: "\(name) is missing") }
            return value
        }
        projectID = try needed(file.project_id, "project_id")
        clientEmail = try needed(file.client_email, "client_email")
        tokenURI = try needed(file.token_uri, "token_uri")
        do {
            key = try SigningKey(pem: Array(try needed(file.private_key, "private_key").utf8), algorithm: .rs256)
        } catch let error as KeyError {
            throw FormatError(description: "private_key: \(error)")
        } catch let error as FormatError {
            throw error
        } catch {
            throw FormatError(description: "private_key cannot be read")
        }
    }

    /// The signed assertion by which an access token is asked for (RFC 7523 §2.1), good for an hour from `now`.
    func assertion(now: Int64) -> [UInt8] {
        func text(_ value: String) -> String { String(decoding: JSONText.escaped(value), as: UTF8.self) }
        let claims =
            "{\"iss\":\"\(text(clientEmail))\",\"scope\":\"https://www.googleapis.com/auth/firebase.messaging\","
            + "\"aud\":\"\(text(tokenURI))\",\"iat\":\(now),\"exp\":\(now + 3600)}"
        return JSONWebToken.signed(claims: claims, keyID: nil, by: key)
    }
}
