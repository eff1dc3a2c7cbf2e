// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import CSodium

/// Base32 (RFC 4648 §6) without padding, which tor uses for keys and onion addresses.
package enum Base32 {
    private static let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".utf8)

    /// The length of `count` bytes in Base32.
    package static func encodedCount(_ count: Int) -> Int { (count * 8 + 4) / 5 }

    /// `bytes` in upper-case Base32.
    package static func encode(_ bytes: some Collection<UInt8>) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(encodedCount(bytes.count))
        var buffer: UInt32 = 0
        var bits = 0
        for byte in bytes {
            buffer = buffer << 8 | UInt32(byte)
            bits += 8
            while bits >= 5 {
                bits -= 5
                text.append(digits[Int(buffer >> bits) & 31])
            }
            buffer &= 1 << bits - 1
        }
        if bits > 0 { text.append(digits[Int(buffer << (5 - bits)) & 31]) }
        return text
    }

    /// Decodes Base32 of either case; `nil` if `text` contains an invalid character, has an impossible length, or if
    /// its unused last bits are not zero.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count * 5 / 8)
        var buffer: UInt32 = 0
        var bits = 0
        for character in text {
            guard let digit = value(of: character) else { return nil }
            buffer = buffer << 5 | UInt32(digit)
            bits += 5
            if bits >= 8 {
                bits -= 8
                bytes.append(UInt8(truncatingIfNeeded: buffer >> bits))
                buffer &= 1 << bits - 1
            }
        }
        return bits < 5 && buffer == 0 ? bytes : nil
    }

    private static func value(of character: UInt8) -> UInt8? {
        switch character {
        case UInt8(ascii: "a")...UInt8(ascii: "z"): character - UInt8(ascii: "a")
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): character - UInt8(ascii: "A")
        case UInt8(ascii: "2")...UInt8(ascii: "7"): character - UInt8(ascii: "2") + 26
        default: nil
        }
    }
}
