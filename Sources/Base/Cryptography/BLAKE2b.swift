// SPDX-License-Identifier: Apache-2.0

import CSodium

/// BLAKE2b with 256 bits of output (RFC 7693), by libsodium.
package enum BLAKE2b {
    /// The unkeyed hash of `bytes`.
    package static func hash256(_ bytes: some Sequence<UInt8>) -> Digest256 {
        if let digest = bytes.withContiguousStorageIfAvailable({ hash256(UnsafeRawBufferPointer($0), key: nil) }) {
            return digest
        }
        return Array(bytes).withUnsafeBytes { hash256($0, key: nil) }
    }

    /// The hash of `bytes` under `key` (16–64 bytes).
    package static func hash256(_ bytes: [UInt8], key: [UInt8]) -> Digest256 {
        bytes.withUnsafeBytes { message in key.withUnsafeBytes { hash256(message, key: $0) } }
    }

    /// Hashes what `fill` writes into a scratch buffer of `capacity` bytes, without allocating.
    package static func hash256(scratch capacity: Int, _ fill: (inout OutputRawSpan) -> Void) -> Digest256 {
        withUnsafeTemporaryAllocation(byteCount: capacity, alignment: 16) { scratch in
            var span = OutputRawSpan(buffer: scratch, initializedCount: 0)
            fill(&span)
            let count = span.finalize(for: scratch)
            return hash256(UnsafeRawBufferPointer(rebasing: scratch[..<count]), key: nil)
        }
    }

    /// Searches for a number with a hash that `isWanted` accepts. Each hash is that of the bytes that `fill` writes,
    /// followed by the number as eight bytes in network order. Allocates nothing, and calls `fill` once.
    /// - Parameters:
    ///   - start: the first number to try. After the largest number, the search continues with 0.
    ///   - tries: the maximum number of numbers to try.
    ///   - capacity: the maximum number of bytes that `fill` writes.
    /// - Returns: the first number with an accepted hash; `nil` if there is none.
    package static func findNonce(
        from start: UInt64, tries: UInt64, after capacity: Int, _ fill: (inout OutputRawSpan) -> Void,
        where isWanted: (Digest256) -> Bool
    ) -> UInt64? {
        withUnsafeTemporaryAllocation(byteCount: capacity + MemoryLayout<UInt64>.size, alignment: 16) { scratch in
            let front = UnsafeMutableRawBufferPointer(rebasing: scratch[..<capacity])
            var span = OutputRawSpan(buffer: front, initializedCount: 0)
            fill(&span)
            let count = span.finalize(for: front)
            let message = UnsafeRawBufferPointer(rebasing: scratch[..<(count + MemoryLayout<UInt64>.size)])
            for step in 0..<tries {
                let number = start &+ step
                scratch.storeBytes(of: number.bigEndian, toByteOffset: count, as: UInt64.self)
                if isWanted(hash256(message, key: nil)) { return number }
            }
            return nil
        }
    }

    private static func hash256(_ message: UnsafeRawBufferPointer, key: UnsafeRawBufferPointer?) -> Digest256 {
        Sodium.initialised
        return Digest256 { output in
            crypto_generichash(
                output.baseAddress!, output.count, message.baseAddress, UInt64(message.count), key?.baseAddress,
                key?.count ?? 0)
        }
    }
}

extension OutputRawSpan {
    /// Appends the 32 bytes of `digest`, without allocating.
    package mutating func append(_ digest: Digest256) {
        append(digest.words.0, as: UInt64.self)
        append(digest.words.1, as: UInt64.self)
        append(digest.words.2, as: UInt64.self)
        append(digest.words.3, as: UInt64.self)
    }
}
