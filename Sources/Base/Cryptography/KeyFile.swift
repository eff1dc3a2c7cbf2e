// SPDX-License-Identifier: Apache-2.0

import Glibc

/// A file that contains one key: 32 random bytes and nothing else. Only its owner may read it.
package enum KeyFile {
    /// Length of a key in bytes.
    package static let length = 32

    /// Reads the key, or creates the file with a new key if it does not exist.
    package static func readOrCreate(_ path: String) throws(PrivateFileError) -> SecretBytes {
        do {
            return try read(path)
        } catch {
            guard case .missing = error else { throw error }
            var bytes = SecureRandom.bytes(length)
            try PrivateFile.create(path, holding: bytes)
            return SecretBytes(moving: &bytes)
        }
    }

    /// Reads the key.
    /// - Parameter copies: used in place of the files themselves.
    package static func read(_ path: String, copies: FileCopies? = nil) throws(PrivateFileError) -> SecretBytes {
        var bytes: [UInt8]
        do {
            bytes = try RegularFile.read(path, atMost: length, access: .owner, copies: copies)
        } catch {
            switch error {
            case .system(ENOENT): throw .missing(file: path)
            case .system(let number): throw .unusable(file: path, reason: String(cString: strerror(number)))
            case .notRegular: throw .unusable(file: path, reason: "not a regular file")
            case .accessibleByOthers: throw .readableByOthers(file: path)
            case .tooLarge(let count): throw .wrongLength(file: path, bytes: count)
            }
        }
        guard bytes.count == length else { throw .wrongLength(file: path, bytes: bytes.count) }
        return SecretBytes(moving: &bytes)
    }
}

extension Ed25519.PrivateKey {
    /// The key whose seed is the content of a key file.
    package init(_ content: SecretBytes) {
        guard let key = content.withBytes({ $0.withUnsafeBytes { Self(seed: Array($0)) } }) else {
            preconditionFailure("a key file has the length of a seed")
        }
        self = key
    }

    /// Reads the key of a site, as `tocsin site key` makes it, or of the owner of a handle.
    /// - Parameter copies: used in place of the files themselves.
    package init(keyFile path: String, copies: FileCopies? = nil) throws(PrivateFileError) {
        self.init(try KeyFile.read(path, copies: copies))
    }
}
