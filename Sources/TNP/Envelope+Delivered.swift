// SPDX-License-Identifier: Apache-2.0

import Cryptography

extension Envelope {
    /// Appends the text that the phone receives under the key `encrypted` (PROTOCOL §3), escaped for use inside a JSON
    /// string: an iv may contain `"` and `\`.
    /// - Parameters:
    ///   - format: the format that the app's phones open.
    ///   - messageMagic: the first part of a `pipe` text; unused for `sealed`.
    ///   - output: the buffer to append to.
    public func appendDeliveredJSON(format: EnvelopeFormat, messageMagic: [UInt8], to output: inout [UInt8]) {
        switch format {
        case .pipe:
            output += messageMagic
            output.append(UInt8(ascii: "|"))
            for byte in iv {
                if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { output.append(UInt8(ascii: "\\")) }
                output.append(byte)
            }
            output.append(UInt8(ascii: "|"))
            Base64.encode(ciphertext, into: &output)
        case .sealed:
            Base64.encode(iv + ciphertext, into: &output)
        }
    }

    /// The number of bytes that ``appendDeliveredJSON(format:messageMagic:to:)`` appends.
    public func deliveredJSONLength(format: EnvelopeFormat, messageMagicLength: Int) -> Int {
        switch format {
        case .pipe:
            let escapes = iv.count { $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "\\") }
            return messageMagicLength + 2 + iv.count + escapes + Base64.encodedCount(ciphertext.count)
        case .sealed: return Base64.encodedCount(iv.count + ciphertext.count)
        }
    }

    /// The `apns-id` of the envelope: a UUID (version 8, variant 10) of the digest's first 16 bytes, as lower-case text
    /// (36 bytes).
    public var apnsID: [UInt8] {
        var bytes = digest.prefix(16)
        bytes[6] = bytes[6] & 0x0F | 0x80
        bytes[8] = bytes[8] & 0x3F | 0x80
        var text: [UInt8] = []
        text.reserveCapacity(36)
        for (index, byte) in bytes.enumerated() {
            if index == 4 || index == 6 || index == 8 || index == 10 { text.append(UInt8(ascii: "-")) }
            text.append(Self.hexDigit(byte >> 4))
            text.append(Self.hexDigit(byte & 15))
        }
        return text
    }

    private static func hexDigit(_ nibble: UInt8) -> UInt8 { nibble < 10 ? nibble + 48 : nibble + 87 }

    /// The collapse id under which a later copy replaces this envelope: the sender's collapse id, or otherwise the
    /// unpadded Base64url of the digest's first 24 bytes.
    public var effectiveCollapseID: [UInt8] {
        collapseID.map { Array($0) } ?? Base64.encodeURLSafe(digest.prefix(24))
    }
}
