// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Glibc

/// Reads files that the configuration names. Errors describe the problem with a file, never its contents.
package enum ConfiguredFile {
    private static let largest = 1 << 20

    /// The reason why a file cannot be used.
    struct Problem: Error, Equatable {
        /// The reason, without the name of the file.
        let text: String
    }

    /// Reads a file that is not secret.
    /// - Throws: ``ConfigurationError``, which names the key.
    package static func read(_ path: String, for key: String, of file: String) throws(ConfigurationError) -> [UInt8] {
        do {
            return try read(path, mustBePrivate: false)
        } catch {
            throw ConfigurationError(file: file, key: key, problem: "\(path): \(error.text)")
        }
    }

    /// Reads a file.
    /// - Parameter mustBePrivate: whether to refuse a file that users other than its owner can access.
    static func read(_ path: String, mustBePrivate: Bool) throws(Problem) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw Problem(text: "cannot be read: \(String(cString: strerror(errno)))") }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw Problem(text: "is not a regular file")
        }
        guard !mustBePrivate || status.st_mode & 0o077 == 0 else {
            throw Problem(text: "is accessible to other users; run: chmod 600 \(path)")
        }
        guard status.st_size <= largest else { throw Problem(text: "is larger than 1 MiB") }
        var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
        var length = 0
        while length < bytes.count {
            let count = bytes.withUnsafeMutableBytes {
                Glibc.read(descriptor, $0.baseAddress! + length, $0.count - length)
            }
            guard count > 0 else { break }
            length += count
        }
        bytes.removeLast(bytes.count - length)
        return bytes
    }
}
