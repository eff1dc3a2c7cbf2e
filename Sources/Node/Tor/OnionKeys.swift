// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Glibc

/// The keys of an onion service in tor's file format. They define its address: any holder of them can serve the onion.
package struct OnionKeys: Sendable, Redacted {
    /// The file of the private key in a `HiddenServiceDir`.
    package static let secretFile = "hs_ed25519_secret_key"
    /// The file of the public key.
    package static let publicFile = "hs_ed25519_public_key"
    /// Exists if tor served the onion without hiding the machine (`HiddenServiceNonAnonymousMode`).
    private static let nonAnonymousFile = "onion_service_non_anonymous"

    private static let secretHeader = header("== ed25519v1-secret: type0 ==")
    private static let publicHeader = header("== ed25519v1-public: type0 ==")
    /// Length of a secret key file in bytes.
    private static let secretLength = 32 + Ed25519.expandedKeyLength

    /// The content of the secret key file.
    private let secret: SecretBytes
    /// The onion's address.
    package let address: OnionAddress

    private static func header(_ text: String) -> [UInt8] { Array(text.utf8) + [0, 0, 0] }

    private init(secret: SecretBytes, address: OnionAddress) {
        self.secret = secret
        self.address = address
    }

    /// Makes the keys of a new onion.
    package static func generate() -> OnionKeys {
        let key = Ed25519.newExpandedKey()
        var bytes = key.withBytes { key in secretHeader + key.withUnsafeBytes { Array($0) } }
        let secret = SecretBytes(moving: &bytes)
        guard let publicKey = key.withBytes({ Ed25519.publicKey(ofExpandedKey: $0) }),
            let address = OnionAddress(publicKey: publicKey)
        else { preconditionFailure("a clamped scalar is not zero") }
        return OnionKeys(secret: secret, address: address)
    }

    /// Reads the keys of a `HiddenServiceDir`.
    /// - Throws: ``OnionFileError`` if the secret key is missing or malformed or other users can access it, if the
    ///   public key does not match it, or if the service did not hide its machine.
    package init(directory: String) throws(OnionFileError) {
        let file = "\(directory)/\(Self.secretFile)"
        var bytes = try OnionFile.read(file, atMost: Self.secretLength, mustBePrivate: true)
        let secret = SecretBytes(moving: &bytes)
        guard secret.count == Self.secretLength else {
            throw .malformed(file: file, problem: "it has \(secret.count) bytes instead of \(Self.secretLength)")
        }
        guard secret.withBytes({ $0.withUnsafeBytes { $0.starts(with: Self.secretHeader) } }) else {
            throw .malformed(file: file, problem: "it does not begin with the header of tor's secret keys")
        }
        let publicKey = secret.withBytes { Ed25519.publicKey(ofExpandedKey: $0.extracting(droppingFirst: 32)) }
        guard let publicKey, let address = OnionAddress(publicKey: publicKey) else {
            throw .malformed(file: file, problem: "no public key can be derived from it")
        }
        self.secret = secret
        self.address = address
        try Self.checkPublicFile(of: address, in: directory)
        if OnionFile.exists("\(directory)/\(Self.nonAnonymousFile)") { throw .nonAnonymous(directory: directory) }
    }

    /// Reads the keys of a `HiddenServiceDir`; `nil` if there are none yet.
    package static func present(in directory: String) throws(OnionFileError) -> OnionKeys? {
        do {
            return try OnionKeys(directory: directory)
        } catch .missing {
            return nil
        }
    }

    /// The address of a `HiddenServiceDir`, from its keys, or from ``OnionAddress/init(hostnameIn:)`` if this user may not
    /// read them; `nil` if there is none yet.
    /// - Throws: ``OnionFileError``.
    package static func address(in directory: String) throws(OnionFileError) -> OnionAddress? {
        do {
            return try present(in: directory)?.address
        } catch .system(_, _, EACCES) {
            return try OnionAddress(hostnameIn: directory)
        }
    }

    private static func checkPublicFile(of address: OnionAddress, in directory: String) throws(OnionFileError) {
        let bytes: [UInt8]
        do {
            bytes = try OnionFile.read(
                "\(directory)/\(publicFile)", atMost: publicHeader.count + address.publicKey.count)
        } catch .missing {
            // tor derives the public key from the secret key.
            return
        }
        guard bytes == publicHeader + address.publicKey else { throw .mismatch(directory: directory) }
    }

    /// Writes the keys into a `HiddenServiceDir`: files with mode 0600 in a directory that is created with mode 0700 if
    /// it does not exist. Does nothing if the directory already holds the same keys.
    /// - Throws: ``OnionFileError``; ``OnionFileError/occupied(directory:address:)`` if the directory holds other keys.
    package func write(to directory: String) throws(OnionFileError) {
        try OnionFile.makeDirectory(directory)
        if let present = try Self.present(in: directory) {
            guard present.address == address else { throw .occupied(directory: directory, address: present.address) }
            return
        }
        // The secret key first: if the second write fails, tor derives the public key from it.
        let written = secret.withBytes { bytes in
            Result { () throws(OnionFileError) in
                try OnionFile.create("\(directory)/\(Self.secretFile)", holding: bytes)
            }
        }
        try written.get()
        try OnionFile.create(
            "\(directory)/\(Self.publicFile)", holding: (Self.publicHeader + address.publicKey).span.bytes)
    }
}
