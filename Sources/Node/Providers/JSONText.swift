// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// Escaping for the inside of a JSON string (RFC 8259 §7).
package enum JSONText {
    /// The escaped text, without the surrounding quotes.
    package static func escaped(_ text: String) -> String {
        var output: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): output += [UInt8(ascii: "\\"), byte]
            case 0..<0x20: output += "\\u00\(Hex.encode([byte]))".utf8
            default: output.append(byte)
            }
        }
        return String(decoding: output, as: UTF8.self)
    }
}
