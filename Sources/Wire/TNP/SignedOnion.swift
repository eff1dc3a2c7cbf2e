// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// The onion that a sender's signature names, so that no other node can use the signature (PROTOCOL §10, §11).
public struct SignedOnion: Equatable, Sendable {
    /// The onion's public key, 32 bytes; zeros for ``none``.
    package let bytes: [UInt8]

    /// No onion: the sender reaches the node without tor.
    public static let none = SignedOnion(bytes: [UInt8](repeating: 0, count: Ed25519.publicKeyLength))

    private init(bytes: [UInt8]) { self.bytes = bytes }

    /// The onion with this public key; `nil` if the key is not 32 bytes long.
    public init?(publicKey: some Collection<UInt8>) {
        guard publicKey.count == Ed25519.publicKeyLength else { return nil }
        bytes = Array(publicKey)
    }
}
