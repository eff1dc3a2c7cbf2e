import Cryptography

/// JSON Web Tokens (RFC 7519) in their compact form.
enum JSONWebToken {
    /// Signs `claims`, a JSON object.
    /// - Parameter keyID: `kid` of the header, where the receiver wants one.
    static func signed(claims: String, keyID: String?, by key: SigningKey) -> [UInt8] {
        let kid = keyID.map { ",\"kid\":\"\(String(decoding: JSONText.escaped($0), as: UTF8.self))\"" } ?? ""
        let header = "{\"alg\":\"\(key.algorithm.rawValue)\",\"typ\":\"JWT\"\(kid)}"
        var token = Base64.encodeURLSafe(header.utf8) + [UInt8(ascii: ".")] + Base64.encodeURLSafe(claims.utf8)
        let signature = key.sign(token)
        token.append(UInt8(ascii: "."))
        return token + Base64.encodeURLSafe(signature)
    }
}
