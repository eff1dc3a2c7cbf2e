// SPDX-License-Identifier: Apache-2.0

import CSodium

/// Base64 (RFC 4648 §4) and its URL-safe form (§5).
package enum Base64 {
    /// The length of `count` bytes in Base64, with padding.
    package static func encodedCount(_ count: Int) -> Int { (count + 2) / 3 * 4 }

    /// Appends the padded standard Base64 of `bytes` to `output`.
    package static func encode(_ bytes: some Collection<UInt8>, into output: inout [UInt8]) {
        if bytes.withContiguousStorageIfAvailable({ encode(buffer: $0, into: &output) }) == nil {
            Array(bytes).withUnsafeBufferPointer { encode(buffer: $0, into: &output) }
        }
    }

    /// Appends the padded standard Base64 of `buffer` to `output`.
    package static func encode(buffer: UnsafeBufferPointer<UInt8>, into output: inout [UInt8]) {
        encode(buffer, with: standard, into: &output)
    }

    /// Two characters for each value of 12 bits; the first character is in the lower byte.
    private static let standard = pairs(ending: "+/")
    private static let urlSafe = pairs(ending: "-_")

    private static func alphabet(ending last: String) -> [UInt8] {
        Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789\(last)".utf8)
    }

    private static func pairs(ending last: String) -> [UInt16] {
        let alphabet = alphabet(ending: last)
        return (0..<4096).map { UInt16(alphabet[$0 >> 6]) | UInt16(alphabet[$0 & 63]) << 8 }
    }

    /// Appends padded Base64, two characters at a time: OpenSSL's EVP_EncodeBlock takes twice as many instructions.
    private static func encode(_ input: UnsafeBufferPointer<UInt8>, with pairs: [UInt16], into output: inout [UInt8]) {
        // Skips empty input for the reason that `append(copying:)` gives.
        guard !input.isEmpty else { return }
        output.append(addingCapacity: encodedCount(input.count)) { output in
            output.withUnsafeMutableBufferPointer { characters, count in
                let (input, characters) = (UnsafeRawBufferPointer(input), UnsafeMutableRawBufferPointer(characters))
                pairs.withUnsafeBufferPointer { pairs in
                    func write(_ bits: UInt32, at group: Int) {
                        let both = UInt32(pairs[Int(bits >> 12)]) | UInt32(pairs[Int(bits & 0xFFF)]) << 16
                        characters.storeBytes(of: both.littleEndian, toByteOffset: 4 &* group, as: UInt32.self)
                    }
                    let groups = input.count / 3
                    // Reads four bytes at a time, of which three count, so the last group comes after the loop.
                    for group in 0..<max(0, groups - 1) {
                        let word = input.loadUnaligned(fromByteOffset: 3 &* group, as: UInt32.self)
                        write(word.bigEndian >> 8, at: group)
                    }
                    for group in max(0, groups - 1)..<encodedCount(input.count) / 4 {
                        let bits = (3 * group..<3 * group + 3).reduce(UInt32(0)) {
                            $0 << 8 | UInt32($1 < input.count ? input[$1] : 0)
                        }
                        write(bits, at: group)
                    }
                    count = encodedCount(input.count)
                    for padding in input.count % 3..<3 where input.count % 3 > 0 {
                        characters[count - 3 + padding] = UInt8(ascii: "=")
                    }
                }
            }
        }
    }

    /// The padded standard Base64 of `bytes`.
    package static func encode(_ bytes: some Collection<UInt8>) -> [UInt8] {
        var output: [UInt8] = []
        output.reserveCapacity(encodedCount(bytes.count))
        encode(bytes, into: &output)
        return output
    }

    /// The unpadded URL-safe Base64 of `bytes`.
    package static func encodeURLSafe(_ bytes: some Collection<UInt8>) -> [UInt8] {
        var output: [UInt8] = []
        Array(bytes).withUnsafeBufferPointer { encodeURLSafe(buffer: $0, into: &output) }
        return output
    }

    /// Appends the unpadded URL-safe Base64 of `buffer` to `output`.
    package static func encodeURLSafe(buffer: UnsafeBufferPointer<UInt8>, into output: inout [UInt8]) {
        encode(buffer, with: urlSafe, into: &output)
        while output.last == UInt8(ascii: "=") { output.removeLast() }
    }

    /// Decodes padded standard Base64; `nil` if `text` is anything else. For ciphertexts: the time that it takes may
    /// reveal the content.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        text.withContiguousStorageIfAvailable(decodeBuffer) ?? Array(text).withUnsafeBufferPointer(decodeBuffer)
    }

    /// Decodes padded standard Base64 like ``decode(_:)``. For keys: the time that valid text takes depends on its length
    /// alone.
    package static func decodeSecret(_ text: some Collection<UInt8>) -> [UInt8]? {
        decode(text, variant: sodium_base64_VARIANT_ORIGINAL)
    }

    /// The six bits of each character; 0xFF for characters outside the alphabet.
    private static let values: [UInt8] = {
        var values = [UInt8](repeating: 0xFF, count: 256)
        for (value, character) in alphabet(ending: "+/").enumerated() { values[Int(character)] = UInt8(value) }
        return values
    }()

    private static func decodeBuffer(_ text: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
        guard text.count.isMultiple(of: 4) else { return nil }
        // Skips empty input for the reason that `append(copying:)` gives.
        guard !text.isEmpty else { return [] }
        let padding = text.suffix(2).reversed().prefix { $0 == UInt8(ascii: "=") }.count
        var isValid = true
        let output = [UInt8](unsafeUninitializedCapacity: text.count / 4 * 3) { output, count in
            values.withUnsafeBufferPointer { values in
                // The OR of all values: 0x80 or more if a character is invalid.
                var seen: UInt8 = 0
                for group in 0..<text.count / 4 {
                    var bits: UInt32 = 0
                    for position in 4 * group..<4 * group + 4 {
                        // Padding counts as zero bits.
                        let value = position < text.count - padding ? values[Int(text[position])] : 0
                        seen |= value
                        bits = bits << 6 | UInt32(value)
                    }
                    output.initializeElement(at: 3 * group, to: UInt8(truncatingIfNeeded: bits >> 16))
                    output.initializeElement(at: 3 * group + 1, to: UInt8(truncatingIfNeeded: bits >> 8))
                    output.initializeElement(at: 3 * group + 2, to: UInt8(truncatingIfNeeded: bits))
                }
                count = text.count / 4 * 3
                // Bits that belong to no byte must be zero (RFC 4648 §3.5).
                isValid = seen < 0x80 && output[..<count].suffix(padding).allSatisfy { $0 == 0 }
                count -= padding
            }
        }
        return isValid ? output : nil
    }

    /// Decodes unpadded URL-safe Base64; `nil` if `text` is anything else.
    package static func decodeURLSafe(_ text: some Collection<UInt8>) -> [UInt8]? {
        decode(text, variant: sodium_base64_VARIANT_URLSAFE_NO_PADDING)
    }

    private static func decode(_ text: some Collection<UInt8>, variant: Int32) -> [UInt8]? {
        Sodium.initialised
        func decode(_ input: UnsafeBufferPointer<UInt8>) -> [UInt8]? { Self.decode(buffer: input, variant: variant) }
        return text.withContiguousStorageIfAvailable(decode) ?? Array(text).withUnsafeBufferPointer(decode)
    }

    private static func decode(buffer: UnsafeBufferPointer<UInt8>, variant: Int32) -> [UInt8]? {
        // libsodium 1.0.18 takes the byte 0x80 for an A.
        guard buffer.allSatisfy({ $0 < 0x80 }) else { return nil }
        var output = [UInt8](repeating: 0, count: buffer.count / 4 * 3 + 3)
        var length = 0
        let result = buffer.withMemoryRebound(to: CChar.self) { input in
            sodium_base642bin(&output, output.count, input.baseAddress, input.count, nil, &length, nil, variant)
        }
        guard result == 0 else { return nil }
        output.removeLast(output.count - length)
        return output
    }
}
