// SPDX-License-Identifier: Apache-2.0

import Cryptography

extension Envelope {
    /// Appends the text that the phone gets under the key `encrypted` (PROTOCOL §3), as it stands inside the quotes of a
    /// JSON string: an iv may hold `"` and `\`, which are escaped there.
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
}

extension Envelope {
    /// How many bytes ``appendDeliveredJSON(format:messageMagic:to:)`` appends.
    public func deliveredJSONLength(format: EnvelopeFormat, messageMagicLength: Int) -> Int {
        func base64Length(_ count: Int) -> Int { (count + 2) / 3 * 4 }
        switch format {
        case .pipe:
            let escapes = iv.count { $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "\\") }
            return messageMagicLength + 2 + iv.count + escapes + base64Length(ciphertext.count)
        case .sealed: return base64Length(iv.count + ciphertext.count)
        }
    }

    /// `apns-id`: the UUID of the digest's first 16 bytes, version 8 and variant 10, in lower-case text (36 bytes).
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

    /// What a later copy of this envelope replaces: the sender's collapse id, else the unpadded Base64url of the
    /// digest's first 24 bytes.
    public var effectiveCollapseID: [UInt8] {
        collapseID.map { Array($0) } ?? Base64.encodeURLSafe(digest.prefix(24))
    }
}
