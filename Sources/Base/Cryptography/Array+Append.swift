// SPDX-License-Identifier: Apache-2.0

extension [UInt8] {
    /// Appends a copy of `bytes`, with half the instructions of `append(contentsOf:)`.
    package mutating func append(copying bytes: UnsafeRawBufferPointer) {
        // Without this line, Swift would write the count 0 to the empty array that all threads share.
        guard !bytes.isEmpty else { return }
        append(addingCapacity: bytes.count) { output in
            output.withUnsafeMutableBufferPointer { buffer, count in
                UnsafeMutableRawBufferPointer(buffer).copyMemory(from: bytes)
                count = bytes.count
            }
        }
    }

    /// Appends a copy of `bytes`. Faster than `+=`, which takes a reference to them for the call.
    package mutating func append(copying bytes: borrowing [UInt8]) {
        bytes.withUnsafeBytes { append(copying: $0) }
    }

    /// Appends a copy of `bytes`.
    package mutating func append(copying bytes: borrowing ArraySlice<UInt8>) {
        bytes.withUnsafeBytes { append(copying: $0) }
    }

    /// Appends a copy of `text`.
    package mutating func append(copying text: StaticString) {
        append(copying: UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    /// Appends the decimal digits of `number`. Faster than its `description`, which makes a string.
    package mutating func append(decimal number: UInt64) {
        // The largest number has 20 digits.
        withUnsafeTemporaryAllocation(byteCount: 20, alignment: 1) { digits in
            var (rest, start) = (number, 20)
            repeat {
                start -= 1
                digits[start] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
            } while rest > 0
            append(copying: UnsafeRawBufferPointer(rebasing: digits[start...]))
        }
    }
}
