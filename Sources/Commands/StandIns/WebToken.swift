// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// A parsed JSON Web Token whose signature is not verified yet.
struct WebToken {
    let header: JSONValue
    let claims: JSONValue
    private let signed: [UInt8]
    private let signature: [UInt8]

    init?(_ text: String) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3,
            let header = Base64.decodeURLSafe(Array(parts[0].utf8)).flatMap({ JSONValue($0) }),
            let claims = Base64.decodeURLSafe(Array(parts[1].utf8)).flatMap({ JSONValue($0) }),
            let signature = Base64.decodeURLSafe(Array(parts[2].utf8))
        else { return nil }
        self.header = header
        self.claims = claims
        self.signature = signature
        signed = Array("\(parts[0]).\(parts[1])".utf8)
    }

    func isSigned(by key: VerifyingKey) -> Bool {
        header["alg"]?.string == key.algorithm.rawValue && key.isValid(signature: signature, of: signed)
    }
}
