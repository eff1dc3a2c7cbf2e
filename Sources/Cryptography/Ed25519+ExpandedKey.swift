// SPDX-License-Identifier: Apache-2.0

import CSodium

extension Ed25519 {
    /// Length of an expanded private key in bytes: the scalar, then the prefix that makes nonces (RFC 8032 §5.1.5).
    package static let expandedKeyLength = 64

    /// The public key that belongs to an expanded private key: its scalar times the base point.
    /// - Parameter expandedKey: lent for the length of the call.
    /// - Returns: 32 bytes; nil where the key is not 64 bytes or its scalar is zero.
    package static func publicKey(ofExpandedKey expandedKey: RawSpan) -> [UInt8]? {
        Sodium.ready
        guard expandedKey.byteCount == expandedKeyLength else { return nil }
        var publicKey = [UInt8](repeating: 0, count: publicKeyLength)
        let result = expandedKey.withUnsafeBytes {
            crypto_scalarmult_ed25519_base_noclamp(
                &publicKey, $0.assumingMemoryBound(to: UInt8.self).baseAddress!)
        }
        return result == 0 ? publicKey : nil
    }
}
