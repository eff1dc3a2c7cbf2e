// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Glibc

/// A node's key for VAPID (RFC 8292). The node signs its requests with it, so that push servers recognise the node and
/// learn whom to contact.
package struct VAPIDKey: Sendable {
    private let key: SigningKey
    /// A `mailto:` or `https:` URI (RFC 8292 §2.1).
    private let subject: String
    /// The public key in Base64url: a browser's `applicationServerKey`.
    package let publicKey: String

    /// How long a token is valid, in seconds; RFC 8292 §2 allows 24 hours.
    static let lifetime: Int64 = 12 * 3600
    /// The age at which a token is replaced, in seconds.
    static let renewal = lifetime / 2

    private static let maximumFile = 4096

    /// - Parameter key: must be for ES256 (P-256); the result is `nil` for another one.
    package init?(_ key: SigningKey, subject: String) {
        guard let point = key.p256PublicKey else { return nil }
        self.key = key
        self.subject = subject
        publicKey = String(decoding: Base64.encodeURLSafe(point), as: UTF8.self)
    }

    /// Reads a key in PEM form.
    /// - Parameter copies: used in place of the files themselves.
    /// - Returns: `nil` if the file does not exist.
    /// - Throws: `PrivateFileError`.
    package static func read(
        _ file: String, subject: String, copies: FileCopies? = nil
    ) throws(PrivateFileError) -> VAPIDKey? {
        do {
            let pem = try RegularFile.read(file, atMost: maximumFile, access: .owner, copies: copies)
            if let key = try? SigningKey(pem: pem, algorithm: .es256), let made = Self(key, subject: subject) {
                return made
            }
        } catch .system(ENOENT) {
            return nil
        } catch {
            throw .unusable(file: file, reason: "\(error)")
        }
        throw .unusable(file: file, reason: "\(KeyError.wrongKind(expected: .es256))")
    }

    /// Reads a key in PEM form, or creates the file with a new key if it does not exist.
    /// - Parameter copies: used in place of the files themselves.
    /// - Throws: `PrivateFileError`.
    package init(
        readingOrCreating file: String, subject: String, copies: FileCopies? = nil
    ) throws(PrivateFileError) {
        if let key = try Self.read(file, subject: subject, copies: copies) {
            self = key
            return
        }
        try PrivateFile.create(file, holding: SigningKey.randomP256().pem)
        guard let key = try Self.read(file, subject: subject) else { throw .missing(file: file) }
        self = key
    }

    /// The value of `Authorization` for a server (RFC 8292 §3).
    /// - Parameters:
    ///   - origin: the server, as ``PushEndpoint/origin``.
    ///   - now: Unix time in seconds.
    func authorization(for origin: String, at now: Int64) -> String {
        let claims = """
            {"aud":"\(JSONText.escaped(origin))","exp":\(now + Self.lifetime),"sub":"\(JSONText.escaped(subject))"}
            """
        let token = JSONWebToken.signed(claims: claims, keyID: nil, by: key)
        return "vapid t=\(String(decoding: token, as: UTF8.self)),k=\(publicKey)"
    }
}
