// SPDX-License-Identifier: Apache-2.0

extension [UInt8] {
    /// Appends a copy of `bytes`. Faster than `+=`, which takes a reference to them for the call.
    package mutating func append(copying bytes: borrowing [UInt8]) {
        bytes.withUnsafeBufferPointer { append(contentsOf: $0) }
    }

    /// Appends the decimal digits of `number`. Faster than its `description`, which makes a string.
    package mutating func append(decimal number: UInt64) {
        // The largest number has 20 digits.
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
            var (rest, start) = (number, 20)
            repeat {
                start -= 1
                digits[start] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
            } while rest > 0
            append(contentsOf: UnsafeBufferPointer(rebasing: digits[start...]))
        }
    }
}
