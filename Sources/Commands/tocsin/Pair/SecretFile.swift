// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Glibc

/// Writes files with secrets at the user's request, readable by their owner only.
enum SecretFile {
    /// Why the file was not written, and what to do.
    enum Failure: Error, Equatable, CustomStringConvertible {
        /// A file with this name exists.
        case exists(String)
        /// The path is not a regular file.
        case notAFile(String)

        var description: String {
            switch self {
            case .exists(let path): "\(path) exists: choose another name, or overwrite it with --force"
            case .notAFile(let path): "\(path) is not a regular file: choose another name"
            }
        }
    }

    /// Writes a file with mode 0600.
    /// - Parameter replacing: whether an existing file may be replaced. The replacement is atomic, once the new file is
    ///   on disk.
    /// - Throws: ``Failure``, `PrivateFileError`.
    static func write(_ bytes: [UInt8], to path: String, replacing: Bool) throws {
        var status = stat()
        let exists = lstat(path, &status) == 0
        guard exists else { return try PrivateFile.create(path, holding: bytes) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw Failure.notAFile(path) }
        guard replacing else { throw Failure.exists(path) }
        let error = DraftFile.write(bytes.span.bytes, to: path, replacing: true, isDurable: true)
        guard error == 0 else { throw PrivateFileError.system(path, error) }
    }
}
