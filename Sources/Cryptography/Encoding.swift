// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import CSodium

/// Base64 (RFC 4648 §4) and its URL-safe form (§5).
package enum Base64 {
    /// The length of `count` bytes in Base64, with padding.
    package static func encodedCount(_ count: Int) -> Int { (count + 2) / 3 * 4 }

    /// Appends the padded standard Base64 of `bytes` to `output`.
    package static func encode(_ bytes: some Collection<UInt8>, into output: inout [UInt8]) {
        let length = encodedCount(bytes.count)
        let start = output.count
        // One more byte for the NUL that EVP_EncodeBlock writes.
        output.append(contentsOf: repeatElement(0, count: length + 1))
        let wrote: Void? = bytes.withContiguousStorageIfAvailable { input in
            output.withUnsafeMutableBufferPointer { buffer in
                _ = EVP_EncodeBlock(buffer.baseAddress! + start, input.baseAddress, Int32(input.count))
            }
        }
        if wrote == nil {
            output.removeLast(length + 1)
            encode(Array(bytes), into: &output)
        } else {
            output.removeLast()
        }
    }

    /// The padded standard Base64 of `bytes`.
    package static func encode(_ bytes: some Collection<UInt8>) -> [UInt8] {
        var output: [UInt8] = []
        output.reserveCapacity(encodedCount(bytes.count) + 1)
        encode(bytes, into: &output)
        return output
    }

    /// The unpadded URL-safe Base64 of `bytes`.
    package static func encodeURLSafe(_ bytes: some Collection<UInt8>) -> [UInt8] {
        var output = encode(bytes)
        while output.last == UInt8(ascii: "=") { output.removeLast() }
        for index in output.indices {
            switch output[index] {
            case UInt8(ascii: "+"): output[index] = UInt8(ascii: "-")
            case UInt8(ascii: "/"): output[index] = UInt8(ascii: "_")
            default: break
            }
        }
        return output
    }

    /// The bytes that padded standard Base64 encodes; `nil` if `text` is not that.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        decode(text, variant: sodium_base64_VARIANT_ORIGINAL)
    }

    /// The bytes that unpadded URL-safe Base64 encodes; `nil` if `text` is not that.
    package static func decodeURLSafe(_ text: some Collection<UInt8>) -> [UInt8]? {
        decode(text, variant: sodium_base64_VARIANT_URLSAFE_NO_PADDING)
    }

    private static func decode(_ text: some Collection<UInt8>, variant: Int32) -> [UInt8]? {
        Sodium.ready
        func decode(_ input: UnsafeBufferPointer<UInt8>) -> [UInt8]? { Self.decode(buffer: input, variant: variant) }
        return text.withContiguousStorageIfAvailable(decode) ?? Array(text).withUnsafeBufferPointer(decode)
    }

    private static func decode(buffer: UnsafeBufferPointer<UInt8>, variant: Int32) -> [UInt8]? {
        var output = [UInt8](repeating: 0, count: buffer.count / 4 * 3 + 3)
        var length = 0
        let result = buffer.withMemoryRebound(to: CChar.self) { input in
            sodium_base642bin(
                &output, output.count, input.baseAddress, input.count, nil, &length, nil, variant)
        }
        guard result == 0 else { return nil }
        output.removeLast(output.count - length)
        return output
    }
}

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

    /// The bytes that hexadecimal of either case encodes; `nil` if `text` is not that.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        // Reading a generic collection byte by byte is many times slower.
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

    /// The bytes that a hexadecimal string encodes; `nil` if `text` is not that.
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

/// Base32 (RFC 4648 §6) without padding, as tor writes keys and onion addresses.
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

    /// The bytes that Base32 of either case encodes; `nil` if `text` contains an invalid character, has an impossible
    /// length, or ends in bits that are not zero.
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
