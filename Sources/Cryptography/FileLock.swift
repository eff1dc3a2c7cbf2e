// SPDX-License-Identifier: Apache-2.0

import Glibc

/// A lock that one process at a time holds, until it is released or the process ends however it ends.
package final class FileLock: Sendable {
    private let descriptor: Int32

    /// Takes the lock by means of the file `path`, which is made where there is none and is never removed: a lock on a
    /// file that was removed excludes nobody.
    /// - Throws: ``PrivateFileError/inUse(file:pid:)``, naming `file` and its holder, where another holds it.
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
        // For the words of who comes second; the lock holds without them.
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
