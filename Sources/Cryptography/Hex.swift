// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import CSodium

/// Hexadecimal text.
package enum Hex {
    private static let digits = Array("0123456789abcdef".utf8)

    /// `bytes` in lower-case hexadecimal.
    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        var text: [UInt8] = []
        text.reserveCapacity(bytes.count * 2)
        for byte in bytes {
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Decodes hexadecimal of either case; `nil` if `text` is not hexadecimal.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        // Uses contiguous storage if there is any: reading a generic collection byte by byte is many times slower.
        text.withContiguousStorageIfAvailable(decodeBuffer) ?? Array(text).withUnsafeBufferPointer(decodeBuffer)
    }

    private static func decodeBuffer(_ text: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
        guard text.count.isMultiple(of: 2) else { return nil }
        var isHexadecimal = true
        let output = [UInt8](unsafeUninitializedCapacity: text.count / 2) { output, count in
            for index in 0..<(text.count / 2) {
                guard let high = value(of: text[2 * index]), let low = value(of: text[2 * index + 1]) else {
                    isHexadecimal = false
                    return
                }
                output.initializeElement(at: index, to: high << 4 | low)
                count = index + 1
            }
        }
        return isHexadecimal ? output : nil
    }

    /// Decodes a hexadecimal string of either case; `nil` if `text` is not hexadecimal.
    package static func decode(_ text: String) -> [UInt8]? { decode(text.utf8) }

    /// Whether this character is a hexadecimal digit.
    package static func isDigit(_ character: UInt8) -> Bool { value(of: character) != nil }

    private static func value(of character: UInt8) -> UInt8? {
        switch character {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): character - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): character - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
