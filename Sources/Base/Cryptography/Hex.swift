// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import CSodium

/// Hexadecimal text.
package enum Hex {
    /// `bytes` in lower-case hexadecimal.
    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        let bytes = Array(bytes)
        let count = 2 * bytes.count
        return String(unsafeUninitializedCapacity: count + 1) { text in
            text.withMemoryRebound(to: CChar.self) { text in
                _ = sodium_bin2hex(text.baseAddress!, count + 1, bytes, bytes.count)
            }
            return count
        }
    }

    /// Decodes hexadecimal of either case; `nil` if `text` is not hexadecimal.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        // Uses contiguous storage if there is any: reading a generic collection byte by byte is many times slower.
        text.withContiguousStorageIfAvailable(decodeBuffer) ?? Array(text).withUnsafeBufferPointer(decodeBuffer)
    }

    private static func decodeBuffer(_ text: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
        guard text.count.isMultiple(of: 2) else { return nil }
        // Skips empty input for the reason that `append(copying:)` gives.
        guard !text.isEmpty else { return [] }
        // The OR of all values: 16 or more if a digit is invalid.
        var seen: UInt8 = 0
        let output = [UInt8](unsafeUninitializedCapacity: text.count / 2) { output, count in
            values.withUnsafeBufferPointer { values in
                for index in 0..<(text.count / 2) {
                    let (high, low) = (values[Int(text[2 * index])], values[Int(text[2 * index + 1])])
                    seen |= high | low
                    output.initializeElement(at: index, to: high << 4 | low)
                }
            }
            count = text.count / 2
        }
        return seen < 16 ? output : nil
    }

    /// Decodes a hexadecimal string of either case; `nil` if `text` is not hexadecimal.
    package static func decode(_ text: String) -> [UInt8]? { decode(text.utf8) }

    /// Whether this character is a hexadecimal digit.
    package static func isDigit(_ character: UInt8) -> Bool { values[Int(character)] < 16 }

    /// Whether all characters are hexadecimal digits. The loop has no early end, so that the compiler can make it check
    /// many characters at a time.
    package static func areDigits(_ text: ArraySlice<UInt8>) -> Bool {
        text.withUnsafeBufferPointer { text in
            var others: UInt8 = 0
            for character in text {
                let (digit, letter) = (character &- UInt8(ascii: "0"), (character | 0x20) &- UInt8(ascii: "a"))
                others |= (digit < 10 ? 0 : 1) & (letter < 6 ? 0 : 1)
            }
            return others == 0
        }
    }

    /// The value of each digit, of either case; 0xFF for other characters.
    private static let values: [UInt8] = {
        var values = [UInt8](repeating: 0xFF, count: 256)
        for (value, digit) in "0123456789abcdef".utf8.enumerated() {
            values[Int(digit)] = UInt8(value)
            // Upper case, too; 10 to 15 are letters.
            if value >= 10 { values[Int(digit & ~0x20)] = UInt8(value) }
        }
        return values
    }()
}
