// SPDX-License-Identifier: Apache-2.0

import Glibc

extension ArraySlice<UInt8> {
    /// The index of the first `byte` from `start` on; `nil` if there is none. Searches many bytes at a time, unlike
    /// `firstIndex(of:)`.
    package func index(of byte: UInt8, from start: Int) -> Int? {
        withUnsafeBytes { bytes in
            UnsafeRawBufferPointer(rebasing: bytes[(start - startIndex)...]).offset(of: byte).map { start + $0 }
        }
    }
}

extension UnsafeRawBufferPointer {
    /// The offset of the first `byte`; `nil` if there is none.
    package func offset(of byte: UInt8) -> Int? {
        guard let start = baseAddress, let found = memchr(start, Int32(byte), count) else { return nil }
        return UnsafeRawPointer(found) - start
    }
}
