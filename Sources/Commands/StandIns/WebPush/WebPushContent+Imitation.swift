// SPDX-License-Identifier: Apache-2.0

import Cryptography

extension WebPushContent {
    /// A public key of P-256, the receiver's in RFC 8291, Appendix A.
    private static let senderKey =
        Base64.decodeURLSafe(
            Array("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4".utf8)) ?? []

    /// A message that push servers take for an encrypted one, and that nobody can open. It costs no encryption, and its
    /// salt can identify it.
    /// - Parameters:
    ///   - salt: 16 bytes.
    ///   - content: in place of the encrypted record, at least 17 bytes.
    package static func imitation(salt: [UInt8], _ content: [UInt8]) -> [UInt8] {
        // The record size, 4096, and the length of the key (RFC 8188 §2.1).
        salt + [0, 0, 0x10, 0, UInt8(P256.publicKeyLength)] + senderKey + content
    }
}
