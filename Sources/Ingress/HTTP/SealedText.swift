// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// The encrypted text of an HTTP request, parsed: `magic|iv|Base64 of the ciphertext`, or the Base64 of `iv ‖ ciphertext`
/// without a magic. `Envelope.appendDeliveredJSON` restores it byte for byte.
struct SealedText: Redacted {
    /// The text before the first `|`; `nil` for a `sealed` app.
    let magic: Bytes?
    let iv: Bytes
    let ciphertext: Bytes

    /// Bytes of an AES-GCM iv.
    private static let nonceLength = 12

    /// - Throws: `Rejection` if the text has neither form. The envelope checks the lengths of iv and ciphertext.
    init(_ text: [UInt8]) throws(Rejection) {
        let parts = text.split(separator: UInt8(ascii: "|"), omittingEmptySubsequences: false)
        switch parts.count {
        case 1:
            guard let bytes = Base64.decode(text), bytes.count > Self.nonceLength else {
                throw Rejection(
                    .malformed, "the encrypted text is neither magic|iv|Base64 nor the Base64 of iv and ciphertext")
            }
            magic = nil
            iv = bytes[..<Self.nonceLength]
            ciphertext = bytes[Self.nonceLength...]
        case 3:
            guard let bytes = Base64.decode(parts[2]) else {
                throw Rejection(.malformed, "the third part of the encrypted text is not standard Base64")
            }
            magic = parts[0]
            iv = parts[1]
            ciphertext = bytes[...]
        default:
            throw Rejection(.malformed, "the encrypted text has \(parts.count) parts instead of 3: magic|iv|Base64")
        }
    }
}
