// SPDX-License-Identifier: Apache-2.0

import Glibc

/// A lock on a file that only one process can hold at a time. The lock ends when the process releases it, exits or
/// crashes.
package final class FileLock: Sendable {
    private let descriptor: Int32

    /// Locks the file at `path`, creating it if it does not exist. Nothing ever removes the file: a lock on a removed
    /// file excludes no other process.
    /// - Throws: ``PrivateFileError``; if another process holds the lock, ``PrivateFileError/inUse(file:pid:)`` with
    ///   `file` and the process id of the holder.
    package init(at path: String, for file: String) throws(PrivateFileError) {
        _ = try PrivateFile.ensure(path)
        let descriptor = open(path, O_RDWR | O_CLOEXEC)
        guard descriptor >= 0 else { throw .system(path) }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let error =
                errno == EWOULDBLOCK
                ? PrivateFileError.inUse(file: file, pid: Self.holder(descriptor)) : .system(path)
            close(descriptor)
            throw error
        }
        // Writes the process id for the error message of other processes. The lock does not depend on it.
        let own = Array("\(getpid())\n".utf8)
        if ftruncate(descriptor, 0) == 0 { _ = own.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, 0) } }
        self.descriptor = descriptor
    }

    private static func holder(_ descriptor: Int32) -> Int32? {
        var bytes = [UInt8](repeating: 0, count: 32)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        return Int32(String(decoding: bytes.prefix(max(0, count)).prefix { $0 != 0x0A }, as: UTF8.self))
    }

    deinit { close(descriptor) }
}
