// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Why a private file cannot be used: what, where, and what to do.
package enum PrivateFileError: Error, Equatable, Sendable, CustomStringConvertible {
    /// Another process holds the lock of the file; its number, where it is known.
    case inUse(file: String, pid: Int32?)
    /// There is no such key file.
    case missing(file: String)
    /// Not only its owner may read the key file.
    case readableByOthers(file: String)
    /// The key file does not hold a key, but so many bytes.
    case length(file: String, bytes: Int)
    /// The operating system cannot work with the file.
    case unusable(file: String, reason: String)

    package var description: String {
        switch self {
        case .inUse(let file, let pid):
            "\(file) is in use by \(pid.map { "process \($0)" } ?? "another process"); end that one first"
        case .missing(let file):
            "there is no key \(file); restore it"
        case .readableByOthers(let file):
            "the key \(file) can be read by others than its owner; run: chmod 600 \(file)"
        case .length(let file, let bytes):
            "the key \(file) has \(bytes) bytes instead of \(KeyFile.length); restore it"
        case .unusable(let file, let reason):
            "cannot use \(file): \(reason); check its directory, its permissions and the free space"
        }
    }

    /// The last system call's failure.
    package static func system(_ file: String) -> PrivateFileError {
        .unusable(file: file, reason: String(cString: strerror(errno)))
    }
}
