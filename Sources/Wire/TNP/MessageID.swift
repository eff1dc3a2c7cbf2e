// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// A push service's id of a message. A UUID in lower case, as Apple's ids are, needs no heap memory.
package struct MessageID: Equatable, Sendable {
    /// The two halves of a UUID.
    struct UUID: Equatable {
        let high, low: UInt64
    }

    private enum Form: Equatable {
        case uuid(UUID)
        case text(String)
    }

    private let form: Form

    /// The largest length of an id in bytes: ``SubmissionResult`` omits a longer one.
    package static let maximumLength = 256
    /// The length of a UUID in bytes.
    static let uuidLength = 36

    /// Parses an id.
    package init(_ text: String) {
        var text = text
        let uuid = text.withUTF8 { Self.uuid($0) }
        form = uuid.map { .uuid($0) } ?? .text(text)
    }

    /// Parses an id; `nil` if it is too long or is not UTF-8.
    package init?(_ bytes: Bytes) {
        guard bytes.count <= Self.maximumLength else { return nil }
        if let uuid = bytes.withUnsafeBufferPointer({ Self.uuid($0) }) {
            form = .uuid(uuid)
        } else if let text = String(validating: bytes, as: UTF8.self) {
            form = .text(text)
        } else {
            return nil
        }
    }

    init(_ uuid: UUID) { form = .uuid(uuid) }

    /// The id as a UUID; `nil` if it is something else.
    var uuid: UUID? {
        if case .uuid(let uuid) = form { uuid } else { nil }
    }

    /// The id as text.
    package var text: String {
        switch form {
        case .text(let text): text
        case .uuid:
            String(unsafeUninitializedCapacity: Self.uuidLength) { output in
                write(uuidTo: UnsafeMutableRawBufferPointer(output))
                return Self.uuidLength
            }
        }
    }

    /// The length in bytes.
    var count: Int {
        switch form {
        case .text(let text): text.utf8.count
        case .uuid: Self.uuidLength
        }
    }

    func append(to output: inout [UInt8]) {
        switch form {
        case .text(let text): output.append(contentsOf: text.utf8)
        case .uuid:
            withUnsafeTemporaryAllocation(byteCount: Self.uuidLength, alignment: 1) {
                write(uuidTo: $0)
                output.append(copying: UnsafeRawBufferPointer($0))
            }
        }
    }

    private func write(uuidTo output: UnsafeMutableRawBufferPointer) {
        guard let uuid else { return }
        UUIDText.write(uuid.high, uuid.low, to: output)
    }

    private static func uuid(_ text: UnsafeBufferPointer<UInt8>) -> UUID? {
        guard text.count == uuidLength else { return nil }
        var (high, low): (UInt64, UInt64) = (0, 0)
        for index in 0..<uuidLength {
            let byte = text[index]
            if UUIDText.isDash(index) {
                guard byte == UInt8(ascii: "-") else { return nil }
                continue
            }
            let digit: UInt8
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = byte - UInt8(ascii: "a") + 10
            default: return nil
            }
            if index < 19 { high = high << 4 | UInt64(digit) } else { low = low << 4 | UInt64(digit) }
        }
        return UUID(high: high, low: low)
    }
}

/// UUIDs as lower-case text (RFC 9562 §4).
enum UUIDText {
    /// Whether a dash stands at this position.
    static func isDash(_ index: Int) -> Bool { index == 8 || index == 13 || index == 18 || index == 23 }

    /// The eight hexadecimal digits of `value`, the first one in the lowest byte.
    private static func digits(_ value: UInt32) -> UInt64 {
        // Spreads the nibbles, one in each byte, and makes all bytes digits or letters at once.
        var nibbles = UInt64(value.byteSwapped)
        nibbles = (nibbles | nibbles << 16) & 0x0000_FFFF_0000_FFFF
        nibbles = (nibbles | nibbles << 8) & 0x00FF_00FF_00FF_00FF
        nibbles = nibbles >> 4 & 0x000F_000F_000F_000F | (nibbles & 0x000F_000F_000F_000F) << 8
        let areLetters = (nibbles + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101
        return (nibbles | 0x3030_3030_3030_3030) + areLetters * 0x27
    }

    /// Writes the text of a UUID: 36 bytes.
    static func write(_ high: UInt64, _ low: UInt64, to output: UnsafeMutableRawBufferPointer) {
        func writeDigits(_ value: UInt64, at first: Int, _ second: Int) {
            let digits = digits(UInt32(truncatingIfNeeded: value)).littleEndian
            output.storeBytes(of: UInt32(truncatingIfNeeded: digits), toByteOffset: first, as: UInt32.self)
            output.storeBytes(of: UInt32(truncatingIfNeeded: digits >> 32), toByteOffset: second, as: UInt32.self)
        }
        writeDigits(high >> 32, at: 0, 4)
        writeDigits(high, at: 9, 14)
        writeDigits(low >> 32, at: 19, 24)
        writeDigits(low, at: 28, 32)
        for index in 0..<MessageID.uuidLength where isDash(index) { output[index] = UInt8(ascii: "-") }
    }
}
