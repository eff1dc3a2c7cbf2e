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
        do {
            return try RegularFile.read(path, atMost: largest, access: mustBePrivate ? .owner : .anyone)
        } catch {
            switch error {
            case .system(let number): throw Problem(text: "cannot be read: \(String(cString: strerror(number)))")
            case .notRegular: throw Problem(text: "is not a regular file")
            case .accessibleByOthers: throw Problem(text: "is accessible to other users; run: chmod 600 \(path)")
            case .tooLarge: throw Problem(text: "is larger than 1 MiB")
            }
        }
    }
}
