// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// The X25519 key pair that authorises one client of an onion: the service stores the public key, the client the
/// private key (rend-spec-v3, "Client authorization").
package struct ClientAuthorization: Sendable, Redacted {
    /// The client's private key. Secret.
    package let key: OnionKey
    /// The public key for the service, 32 bytes.
    package let publicKey: [UInt8]

    /// What precedes a key in tor's files.
    static let scheme = "descriptor:x25519:"

    /// Generates a key pair for a client of this onion.
    package init(for address: OnionAddress) {
        let privateKey = X25519.privateKey()
        guard let publicKey = X25519.publicKey(of: privateKey) else { preconditionFailure("no X25519 in libsodium") }
        key = OnionKey(address: address, privateKey: privateKey)
        self.publicKey = publicKey
    }

    /// The content of the service's `.auth` file.
    static func serviceFile(of publicKey: [UInt8]) -> [UInt8] {
        Array(scheme.utf8) + Base32.encode(publicKey) + [UInt8(ascii: "\n")]
    }

    /// The key in a line of an `.auth` file, or in the end of a line of `ClientOnionAuthDir`; `nil` if it is malformed.
    static func key(inLine line: some Collection<UInt8>) -> [UInt8]? {
        guard line.starts(with: scheme.utf8), let key = Base32.decode(line.dropFirst(scheme.utf8.count)),
            key.count == X25519.keyLength
        else { return nil }
        return key
    }
}
