// SPDX-License-Identifier: Apache-2.0

extension [UInt8] {
    /// Appends a copy of `bytes`. Faster than `+=`, which takes a reference to them for the call.
    package mutating func append(copying bytes: borrowing [UInt8]) {
        bytes.withUnsafeBufferPointer { append(contentsOf: $0) }
    }
}
