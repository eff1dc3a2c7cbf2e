// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Glibc

/// Files with secrets that a person asks for, for the owner's eyes only.
enum SecretFile {
    /// Why there is no such file, and what to do.
    enum Failure: Error, Equatable, CustomStringConvertible {
        /// There is one already.
        case exists(String)
        /// What is there is no file.
        case notAFile(String)

        var description: String {
            switch self {
            case .exists(let path): "\(path) is there already: choose another name, or overwrite it with --force"
            case .notAFile(let path): "\(path) is not a file: choose another name"
            }
        }
    }

    /// Writes a file with mode 0600.
    /// - Parameter replacing: whether a file that is there may be replaced. It is, in one step, when the new one is on
    ///   disk.
    /// - Throws: ``Failure``, `PrivateFileError`.
    static func write(_ bytes: [UInt8], to path: String, replacing: Bool) throws {
        var status = stat()
        let isThere = lstat(path, &status) == 0
        guard isThere else { return try PrivateFile.create(path, holding: bytes) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw Failure.notAFile(path) }
        guard replacing else { throw Failure.exists(path) }
        let draft = "\(path).\(Hex.encode(SecureRandom.bytes(8)))"
        try PrivateFile.create(draft, holding: bytes)
        guard rename(draft, path) == 0 else {
            let reason = String(cString: strerror(errno))
            unlink(draft)
            throw PrivateFileError.unusable(file: path, reason: reason)
        }
    }
}
