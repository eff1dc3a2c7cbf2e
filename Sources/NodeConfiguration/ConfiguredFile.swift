// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Glibc

/// Files that the configuration names. Errors say what is wrong with the file, never what is in it.
package enum ConfiguredFile {
    private static let largest = 1 << 20

    /// Why a file cannot be used; does not name it.
    struct Problem: Error, Equatable {
        let text: String
    }

    /// The bytes of a file that need not be secret.
    /// - Throws: ``ConfigurationError`` that names the key.
    package static func read(_ path: String, for key: String, of file: String) throws(ConfigurationError) -> [UInt8] {
        do {
            return try read(path, mustBePrivate: false)
        } catch {
            throw ConfigurationError(file: file, key: key, problem: "\(path): \(error.text)")
        }
    }

    /// The bytes of a file.
    /// - Parameter mustBePrivate: whether it is refused where others than its owner may read or write it.
    static func read(_ path: String, mustBePrivate: Bool) throws(Problem) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw Problem(text: "cannot be read: \(String(cString: strerror(errno)))") }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw Problem(text: "is not a file")
        }
        guard !mustBePrivate || status.st_mode & 0o077 == 0 else {
            throw Problem(text: "can be read by others than its owner; run: chmod 600 \(path)")
        }
        guard status.st_size <= largest else { throw Problem(text: "is larger than any credential") }
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
