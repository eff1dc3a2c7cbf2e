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
    package static func read(_ path: String) throws(PrivateFileError) -> SecretBytes {
        // Non-blocking: otherwise, if the path names a pipe, open would wait for a writer.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            throw errno == ENOENT ? PrivateFileError.missing(file: path) : .system(path)
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw .system(path) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .unusable(file: path, reason: "not a regular file") }
        guard status.st_mode & 0o077 == 0 else { throw .readableByOthers(file: path) }
        guard status.st_size == length else { throw .wrongLength(file: path, bytes: Int(status.st_size)) }
        var bytes = [UInt8](repeating: 0, count: length)
        guard Glibc.read(descriptor, &bytes, bytes.count) == bytes.count else { throw .system(path) }
        return SecretBytes(moving: &bytes)
    }
}
