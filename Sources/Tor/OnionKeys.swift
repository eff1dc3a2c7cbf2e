// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// The keys of an onion service in tor's own files. Who has them is the service: they are its address.
package struct OnionKeys: Sendable, Redacted {
    /// The file of the private key in a `HiddenServiceDir`.
    package static let secretFile = "hs_ed25519_secret_key"
    /// The file of the public key.
    package static let publicFile = "hs_ed25519_public_key"
    /// Is there where tor served without hiding the machine (`HiddenServiceNonAnonymousMode`).
    private static let nonAnonymousFile = "onion_service_non_anonymous"

    private static let secretHeader = header("== ed25519v1-secret: type0 ==")
    private static let publicHeader = header("== ed25519v1-public: type0 ==")
    /// Bytes of a secret key file.
    private static let secretLength = 32 + Ed25519.expandedKeyLength

    /// All of the secret key file.
    private let secret: SecretBytes
    /// The address that the keys make.
    package let address: OnionAddress

    private static func header(_ text: String) -> [UInt8] { Array(text.utf8) + [0, 0, 0] }

    /// Reads the keys of a `HiddenServiceDir`.
    /// - Throws: ``OnionFileError``: a key that others may read or that is none, a public key that is not this one's, the
    ///   keys of a service that did not hide.
    package init(directory: String) throws(OnionFileError) {
        let file = "\(directory)/\(Self.secretFile)"
        var bytes = try OwnedFile.read(file, atMost: Self.secretLength, mustBePrivate: true)
        let secret = SecretBytes(moving: &bytes)
        guard secret.count == Self.secretLength else {
            throw .broken(file: file, problem: "it has \(secret.count) bytes instead of \(Self.secretLength)")
        }
        guard secret.withBytes({ $0.extracting(first: 32).elementsEqual(Self.secretHeader) }) else {
            throw .broken(file: file, problem: "it does not begin as tor's secret keys do")
        }
        let publicKey = secret.withBytes { Ed25519.publicKey(ofExpandedKey: $0.extracting(droppingFirst: 32)) }
        guard let publicKey, let address = OnionAddress(publicKey: publicKey) else {
            throw .broken(file: file, problem: "no public key belongs to it")
        }
        self.secret = secret
        self.address = address
        try Self.checkPublicFile(of: address, in: directory)
        if OwnedFile.exists("\(directory)/\(Self.nonAnonymousFile)") { throw .nonAnonymous(directory: directory) }
    }

    /// The keys of a `HiddenServiceDir`; nil where there are none yet.
    package static func present(in directory: String) throws(OnionFileError) -> OnionKeys? {
        do {
            return try OnionKeys(directory: directory)
        } catch .missing {
            return nil
        }
    }

    private static func checkPublicFile(of address: OnionAddress, in directory: String) throws(OnionFileError) {
        let bytes: [UInt8]
        do {
            bytes = try OwnedFile.read(
                "\(directory)/\(publicFile)", atMost: publicHeader.count + address.publicKey.count)
        } catch .missing {
            // tor makes it of the secret key.
            return
        }
        guard bytes == publicHeader + address.publicKey else { throw .mismatch(directory: directory) }
    }

    /// Writes the keys into a `HiddenServiceDir`, which is made with mode 0700 where it is not there; the files get mode
    /// 0600. Where the same keys lie there already, nothing happens.
    /// - Throws: ``OnionFileError/occupied(directory:address:)`` where other keys lie there.
    package func write(to directory: String) throws(OnionFileError) {
        try OwnedFile.makeDirectory(directory)
        if let present = try Self.present(in: directory) {
            guard present.address == address else { throw .occupied(directory: directory, address: present.address) }
            return
        }
        // The secret key first: tor makes the other of it, should we not come that far.
        let written = secret.withBytes { bytes in
            Result { () throws(OnionFileError) in
                try OwnedFile.create("\(directory)/\(Self.secretFile)", holding: bytes)
            }
        }
        try written.get()
        try OwnedFile.create(
            "\(directory)/\(Self.publicFile)", holding: (Self.publicHeader + address.publicKey).span.bytes)
    }
}

extension RawSpan {
    /// Whether these are the bytes.
    func elementsEqual(_ bytes: [UInt8]) -> Bool {
        withUnsafeBytes { $0.elementsEqual(bytes) }
    }
}
