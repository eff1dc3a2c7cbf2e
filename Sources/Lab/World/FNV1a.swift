// SPDX-License-Identifier: Apache-2.0

/// FNV-1a with 64 bits (Fowler, Noll and Vo, "The FNV Non-Cryptographic Hash Algorithm"). Equal bytes have equal hashes
/// on every machine. Not for input that an attacker chooses.
package struct FNV1a {
    /// The hash of the bytes so far.
    package private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

    /// A hash of no bytes.
    package init() {}

    /// Adds bytes.
    package mutating func add(_ bytes: some Sequence<UInt8>) {
        for byte in bytes { value = (value ^ UInt64(byte)) &* 0x100_0000_01b3 }
    }
}
