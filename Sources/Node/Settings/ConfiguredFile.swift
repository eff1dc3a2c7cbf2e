// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Glibc

/// Reads files that the configuration names. Errors describe the problem with a file, never its contents.
package enum ConfiguredFile {
    /// The maximum size of a file, in bytes.
    package static let maximumBytes = 1 << 20

    /// The reason why a file cannot be used.
    package struct Problem: Error, Equatable, Codable, Sendable, CustomStringConvertible {
        package let file: String
        /// The reason, without the name of the file and without any part of its contents.
        package let text: String

        package var description: String { text }

        package init(file: String, text: String) {
            self.file = file
            self.text = text
        }
    }

    /// Reads a file that is not secret.
    /// - Parameter configuration: the name of the configuration file.
    /// - Throws: ``ConfigurationError``, which names the key.
    package static func read(
        _ path: String, for key: String, in configuration: String, copies: FileCopies?
    ) throws(ConfigurationError) -> [UInt8] {
        do {
            return try read(path, mustBePrivate: false, copies: copies)
        } catch {
            throw ConfigurationError(file: configuration, key: key, problem: "\(path): \(error.text)")
        }
    }

    /// Reads the first line of a file that only its owner may access, for instance a password.
    package static func secretLine(_ path: String, copies: FileCopies?) throws(Problem) -> SecretBytes {
        var bytes = try read(path, mustBePrivate: true, copies: copies)
        var line = Array(bytes.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") })
        _ = SecretBytes(moving: &bytes)
        return SecretBytes(moving: &line)
    }

    /// Reads a file.
    /// - Parameters:
    ///   - mustBePrivate: whether to refuse a file that users other than its owner can access.
    ///   - copies: used in place of the files themselves.
    package static func read(
        _ path: String, mustBePrivate: Bool, copies: FileCopies? = nil
    ) throws(Problem) -> [UInt8] {
        do {
            return try RegularFile.read(
                path, atMost: maximumBytes, access: mustBePrivate ? .owner : .anyone, copies: copies)
        } catch {
            let text =
                switch error {
                case .system(let number): "cannot be read: \(String(cString: strerror(number)))"
                case .notRegular: "is not a regular file"
                case .accessibleByOthers: "is accessible to other users; run: chmod 600 \(path)"
                case .tooLarge: "is larger than 1 MiB"
                }
            throw Problem(file: path, text: text)
        }
    }
}
