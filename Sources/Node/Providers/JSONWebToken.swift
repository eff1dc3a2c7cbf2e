// SPDX-License-Identifier: Apache-2.0

import Cryptography
import FoundationEssentials

/// JSON Web Tokens (RFC 7519) in their compact form.
enum JSONWebToken {
    /// Signs `claims`, a JSON object.
    /// - Parameter keyID: the `kid` header field; `nil` if the receiver does not require one.
    static func signed(claims: String, keyID: String?, by key: SigningKey) -> [UInt8] {
        let kid = keyID.map { ",\"kid\":\"\(JSONText.escaped($0))\"" } ?? ""
        let header = "{\"alg\":\"\(key.algorithm.rawValue)\",\"typ\":\"JWT\"\(kid)}"
        var token = Base64.encodeURLSafe(header.utf8) + [UInt8(ascii: ".")] + Base64.encodeURLSafe(claims.utf8)
        let signature = key.sign(token)
        token.append(UInt8(ascii: "."))
        return token + Base64.encodeURLSafe(signature)
    }

    /// The issue time (`iat`) of a token; `nil` if it is not from this issuer or its signature by this key is invalid.
    static func issueTime(
        of token: [UInt8], keyID: String, issuer: String, signedBy key: VerifyingKey
    ) -> Int64? {
        struct Header: Decodable {
            let alg: String
            let kid: String
        }
        struct Claims: Decodable {
            let iss: String
            let iat: Int64
        }
        let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3,
            let header = Base64.decodeURLSafe(Array(parts[0])),
            let claims = Base64.decodeURLSafe(Array(parts[1])),
            let signature = Base64.decodeURLSafe(Array(parts[2])),
            key.isValid(signature: signature, of: Array(token[..<(token.count - parts[2].count - 1)])),
            let head = try? JSONDecoder().decode(Header.self, from: Data(header)),
            let body = try? JSONDecoder().decode(Claims.self, from: Data(claims)),
            head.alg == key.algorithm.rawValue, head.kid == keyID, body.iss == issuer
        else { return nil }
        return body.iat
    }
}
