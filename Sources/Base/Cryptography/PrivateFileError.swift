// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Why a private file cannot be used. The description says what is wrong, with which file, and what to do.
package enum PrivateFileError: Error, Equatable, Sendable, CustomStringConvertible {
    /// Another process has locked the file; `pid` is its process id, `nil` if unknown.
    case inUse(file: String, pid: Int32?)
    /// The key file does not exist.
    case missing(file: String)
    /// Users other than its owner may read the key file.
    case readableByOthers(file: String)
    /// The key file has this many bytes, which is not the length of a key.
    case wrongLength(file: String, bytes: Int)
    /// The operating system cannot use the file.
    case unusable(file: String, reason: String)

    /// The error message for the operator.
    package var description: String {
        switch self {
        case .inUse(let file, let pid):
            "\(file) is in use by \(pid.map { "process \($0)" } ?? "another process"); stop that process first"
        case .missing(let file):
            "the key file \(file) is missing; restore it from a backup"
        case .readableByOthers(let file):
            "users other than its owner can read the key file \(file); run: chmod 600 \(file)"
        case .wrongLength(let file, let bytes):
            "the key file \(file) has \(bytes) bytes instead of \(KeyFile.length); restore it from a backup"
        case .unusable(let file, let reason):
            "cannot use \(file): \(reason); check its directory, its permissions and the free space"
        }
    }

    /// The error of a system call.
    package static func system(_ file: String, _ number: Int32 = errno) -> PrivateFileError {
        .unusable(file: file, reason: String(cString: strerror(number)))
    }
}
