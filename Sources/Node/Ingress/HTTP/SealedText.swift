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

    /// The length of an AES-GCM iv, in bytes.
    private static let nonceLength = 12

    /// - Throws: `Rejection` if the text has neither form. The envelope checks the lengths of iv and ciphertext.
    init(_ text: [UInt8]) throws(Rejection) {
        let bar = UInt8(ascii: "|")
        guard let first = text[...].index(of: bar, from: 0) else {
            guard let bytes = Base64.decode(text), bytes.count > Self.nonceLength else {
                throw Rejection(
                    .malformed, "the encrypted text is neither magic|iv|Base64 nor the Base64 of iv and ciphertext")
            }
            magic = nil
            iv = bytes[..<Self.nonceLength]
            ciphertext = bytes[Self.nonceLength...]
            return
        }
        let second = text[(first + 1)...].firstIndex(of: bar) ?? text.endIndex
        let rest = text[second...].dropFirst()
        guard second < text.endIndex, !rest.contains(bar) else {
            let parts = text.count { $0 == bar } + 1
            throw Rejection(.malformed, "the encrypted text has \(parts) parts instead of 3: magic|iv|Base64")
        }
        guard let bytes = Base64.decode(rest) else {
            throw Rejection(.malformed, "the third part of the encrypted text is not standard Base64")
        }
        magic = text[..<first]
        iv = text[(first + 1)..<second]
        ciphertext = bytes[...]
    }
}
