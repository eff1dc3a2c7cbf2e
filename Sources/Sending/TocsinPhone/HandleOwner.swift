// SPDX-License-Identifier: Apache-2.0

import Crypto

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The key of the owner of handles, who alone may change or end them (PROTOCOL §11). One owner has the handles of one
/// user of the phone: nodes can see that handles have the same owner. Prints without the key; encode it (`Codable`)
/// only to store it where secrets belong. Without it, handles cannot follow a new device token.
public struct HandleOwner: Codable, Sendable, CustomStringConvertible {
    private let seed: [UInt8]

    /// Makes a new owner.
    public init() { seed = Array(Curve25519.Signing.PrivateKey().rawRepresentation) }

    /// Takes an existing key.
    /// - Parameter seed: the private key of Ed25519, 32 bytes; with another length, the result is `nil`.
    public init?(seed: [UInt8]) {
        guard (try? Curve25519.Signing.PrivateKey(rawRepresentation: seed)) != nil else { return nil }
        self.seed = seed
    }

    /// Decodes a key.
    /// - Throws: ``PhoneError/damaged`` if the bytes are no key; the decoder's errors.
    public init(from decoder: any Decoder) throws {
        let seed = try decoder.container(keyedBy: CodingKeys.self).decode([UInt8].self, forKey: .seed)
        guard let owner = HandleOwner(seed: seed) else { throw PhoneError.damaged }
        self = owner
    }

    private enum CodingKeys: CodingKey { case seed }

    private var key: Curve25519.Signing.PrivateKey {
        guard let key = try? Curve25519.Signing.PrivateKey(rawRepresentation: seed) else {
            preconditionFailure("a seed is 32 bytes")
        }
        return key
    }

    /// The public key, 32 bytes.
    public var publicKey: [UInt8] { Array(key.publicKey.rawRepresentation) }

    func sign(_ message: [UInt8]) -> [UInt8] {
        guard let signature = try? key.signature(for: message) else { preconditionFailure("Ed25519 signs any message") }
        return Array(signature)
    }

    /// A text with no part of the key.
    public var description: String { "<HandleOwner redacted>" }
}
