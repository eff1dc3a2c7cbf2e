// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Settings

/// The token that the admin port asks for if `listen.admin_token_file` is set. Where other machines can reach the port,
/// only this token protects the dashboard.
package struct AdminToken: Sendable, Equatable, Redacted {
    /// The allowed lengths. A random token of 22 Base64 characters has 128 bits, so nobody can guess it.
    static let lengths = 22...256

    private let text: SecretBytes

    /// Checks a token; `nil` if it is too short or too long, or contains a colon or anything but visible ASCII: a
    /// header field cannot carry such a token (RFC 9110, section 11.6.2; RFC 7617, section 2).
    init?(_ text: SecretBytes) {
        let isValid = text.withBytes { bytes in
            Self.lengths.contains(bytes.byteCount)
                && bytes.withUnsafeBytes { $0.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: ":") } }
        }
        guard isValid else { return nil }
        self.text = text
    }

    /// Whether the value of an `Authorization` field contains the token: as a bearer token (RFC 6750), as Prometheus and
    /// `tocsin status` send it, or as a password (RFC 7617), as browsers do, with any user name.
    package func isGiven(by authorization: String?) -> Bool {
        guard let parts = authorization?.split(separator: " ", maxSplits: 1), parts.count == 2 else { return false }
        let value = Array(parts[1].drop { $0 == " " }.utf8)
        switch parts[0].lowercased() {
        case "bearer": return isEqual(value)
        case "basic":
            guard let pair = Base64.decodeSecret(value), let colon = pair.firstIndex(of: UInt8(ascii: ":")) else {
                return false
            }
            return isEqual(Array(pair[(colon + 1)...]))
        default: return false
        }
    }

    /// The value of the `Authorization` field of a request with this token. Secret.
    package var authorization: String { "Bearer \(String(decoding: bytes, as: UTF8.self))" }

    package static func == (one: Self, other: Self) -> Bool { one.isEqual(other.bytes) }

    private func isEqual(_ other: [UInt8]) -> Bool { HMAC.constantTimeEqual(bytes, other) }

    private var bytes: [UInt8] { text.withBytes { $0.withUnsafeBytes { Array($0) } } }
}

extension Configuration {
    /// Reads the token of the admin port; `nil` if it has none.
    /// - Throws: ``ConfigurationError``, which names the file and contains nothing of it.
    package func adminToken() throws(ConfigurationError) -> AdminToken? {
        guard let path = listen.adminTokenFile else { return nil }
        func problem(_ text: String) -> ConfigurationError {
            ConfigurationError(file: file, key: "listen.admin_token_file", problem: "\(path): \(text)")
        }
        let line: SecretBytes
        do {
            line = try ConfiguredFile.secretLine(path, copies: copies)
        } catch {
            throw problem(error.text)
        }
        guard let token = AdminToken(line) else {
            throw problem(
                "the first line must have \(AdminToken.lengths.lowerBound) to \(AdminToken.lengths.upperBound) visible characters without a colon; make one with: openssl rand -hex 32"
            )
        }
        return token
    }
}
