// SPDX-License-Identifier: Apache-2.0

import CSodium

/// 64 bits of Poly1305 (RFC 8439 §2.5) under a random key of its own: the fastest hash for long contents. Nobody can
/// construct a collision without knowing the key or a hash, so a hash must never leave the process.
package struct UniversalHash: Sendable {
    private let key = SecureRandom.bytes(Int(crypto_onetimeauth_KEYBYTES))

    /// A hash function with a new key.
    package init() {}

    /// The hash of `bytes`.
    package func callAsFunction(_ bytes: ArraySlice<UInt8>) -> Int {
        Sodium.initialised
        // Poly1305 has 16 bytes of output.
        var output = (0, 0)
        withUnsafeMutableBytes(of: &output) { output in
            bytes.withUnsafeBufferPointer { bytes in
                _ = crypto_onetimeauth(
                    output.assumingMemoryBound(to: UInt8.self).baseAddress!, bytes.baseAddress, UInt64(bytes.count), key
                )
            }
        }
        return output.0
    }
}
