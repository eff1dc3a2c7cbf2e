// SPDX-License-Identifier: Apache-2.0

/// Escaping for the inside of a JSON string (RFC 8259 §7).
package enum JSONText {
    /// The UTF-8 bytes of `text`, escaped; without the surrounding quotes.
    package static func escaped(_ text: String) -> [UInt8] {
        var output: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): output += [UInt8(ascii: "\\"), byte]
            case 0..<0x20: output += Array("\\u00".utf8) + [hex(byte >> 4), hex(byte & 15)]
            default: output.append(byte)
            }
        }
        return output
    }

    private static func hex(_ nibble: UInt8) -> UInt8 { nibble < 10 ? nibble + 48 : nibble + 87 }
}
