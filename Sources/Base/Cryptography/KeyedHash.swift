// SPDX-License-Identifier: Apache-2.0

import CSodium

/// 64 bits of BLAKE2b under a secret key. Tables and files contain this hash in place of a device token or sender key.
/// Without the secret key, the hash cannot be inverted and collisions cannot be constructed.
package struct KeyedHash: Sendable {
    private let key: SecretBytes

    /// Creates the hash function with this key.
    /// - Parameter key: 16–64 bytes.
    package init(key: SecretBytes) {
        precondition((16...64).contains(key.count))
        self.key = key
    }

    /// The hash of two parts; never 0. The hashed input includes the length of each part, so that different pairs never
    /// form the same input. Allocates nothing if the parts together have at most 1015 bytes.
    /// - Parameter label: the kind of the parts. Equal parts of different kinds have different hashes.
    package func callAsFunction(
        _ first: UnsafeRawBufferPointer, _ second: UnsafeRawBufferPointer, label: UInt8
    ) -> UInt64 {
        withUnsafeTemporaryAllocation(byteCount: first.count + second.count + 9, alignment: 16) { scratch in
            scratch[0] = label
            var end = 1
            func append(_ part: UnsafeRawBufferPointer) {
                scratch.storeBytes(of: UInt32(truncatingIfNeeded: part.count), toByteOffset: end, as: UInt32.self)
                end += 4
                UnsafeMutableRawBufferPointer(rebasing: scratch[end...]).copyMemory(from: part)
                end += part.count
            }
            append(first)
            append(second)
            return hash(UnsafeRawBufferPointer(scratch))
        }
    }

    private func hash(_ message: UnsafeRawBufferPointer) -> UInt64 {
        Sodium.initialised
        // libsodium's shortest output has 16 bytes.
        var output: (UInt64, UInt64) = (0, 0)
        key.withUnsafeBytes { key in
            withUnsafeMutableBytes(of: &output) {
                _ = crypto_generichash(
                    $0.baseAddress!, $0.count, message.baseAddress, UInt64(message.count), key.baseAddress, key.count)
            }
        }
        return output.0 == 0 ? 1 : output.0
    }
}
