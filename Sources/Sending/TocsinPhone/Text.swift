// SPDX-License-Identifier: Apache-2.0

/// Bytes as text.
enum Text {
    /// Lower-case hexadecimal digits.
    static func hex(_ bytes: [UInt8]) -> String {
        bytes.map { byte in
            let digits = String(byte, radix: 16)
            return digits.count == 1 ? "0\(digits)" : digits
        }.joined()
    }

    /// The bytes of hexadecimal digits in either case; `nil` if `text` is something else.
    static func bytes(hex text: some StringProtocol) -> [UInt8]? {
        let digits = text.utf8.map { Character(UnicodeScalar($0)).hexDigitValue }
        guard digits.count.isMultiple(of: 2), digits.allSatisfy({ $0 != nil }) else { return nil }
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0]! << 4 | digits[$0 + 1]!) }
    }

    /// The bytes of Base32 (RFC 4648 §6) in either case and without padding; `nil` if `text` is something else.
    static func bytes(base32 text: some StringProtocol) -> [UInt8]? {
        var (bytes, buffer, count): ([UInt8], UInt32, Int) = ([], 0, 0)
        for character in text.utf8 {
            let digit: UInt8
            switch character {
            case UInt8(ascii: "a")...UInt8(ascii: "z"): digit = character - UInt8(ascii: "a")
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): digit = character - UInt8(ascii: "A")
            case UInt8(ascii: "2")...UInt8(ascii: "7"): digit = character - UInt8(ascii: "2") + 26
            default: return nil
            }
            buffer = buffer << 5 | UInt32(digit)
            count += 5
            guard count >= 8 else { continue }
            count -= 8
            bytes.append(UInt8(truncatingIfNeeded: buffer >> UInt32(count)))
        }
        return bytes
    }

    /// The big-endian bytes of a number.
    static func bytes(_ number: some FixedWidthInteger) -> [UInt8] { withUnsafeBytes(of: number.bigEndian, Array.init) }

    /// The number that these big-endian bytes are.
    static func number(_ bytes: some Sequence<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
}
