// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Files that only their owner may read and write, whatever the umask.
package enum PrivateFile {
    private static let mode: mode_t = 0o600

    /// Creates an empty file if there is none.
    /// - Returns: the size of the file in bytes.
    package static func ensure(_ path: String) throws(PrivateFileError) -> Int {
        let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode)
        if descriptor >= 0 {
            defer { close(descriptor) }
            guard fchmod(descriptor, mode) == 0, syncDirectory(of: path) else { throw .system(path) }
            return 0
        }
        var status = stat()
        guard errno == EEXIST, stat(path, &status) == 0 else { throw .system(path) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .unusable(file: path, reason: "not a regular file") }
        return Int(status.st_size)
    }

    /// Creates a file with these bytes and syncs it to disk. Throws if the file exists already.
    package static func create(_ path: String, holding bytes: [UInt8]) throws(PrivateFileError) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)
        guard descriptor >= 0 else { throw .system(path) }
        defer { close(descriptor) }
        let written = write(descriptor, bytes, bytes.count)
        // A disk that takes only a part of so few bytes is full.
        if written >= 0, written < bytes.count { errno = ENOSPC }
        guard written == bytes.count, fchmod(descriptor, mode) == 0, fsync(descriptor) == 0, syncDirectory(of: path)
        else {
            let error = PrivateFileError.system(path)
            unlink(path)
            throw error
        }
    }

    /// Replaces a file, or creates it: at each moment the path names all of the old bytes or all of the new ones. Only
    /// for files that one process writes: the draft is `path` with `.new`.
    /// - Parameter isDurable: whether the new file is on the disk when this returns; see ``DraftFile``.
    package static func replace(_ path: String, holding bytes: [UInt8], isDurable: Bool) throws(PrivateFileError) {
        let error = DraftFile.write(
            bytes.span.bytes, to: path, through: "\(path).new", replacing: true, isDurable: isDurable)
        guard error == 0 else { throw .system(path, error) }
    }

    /// Removes the permissions of everyone except the owner from a file, if it exists.
    package static func restrict(_ path: String) throws(PrivateFileError) {
        guard chmod(path, mode) == 0 || errno == ENOENT else { throw .system(path) }
    }

    /// Syncs the directory of `path` to disk: a name created or removed in it is durable only after that.
    package static func syncDirectory(of path: String) -> Bool {
        let directory = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
        let descriptor = open(directory, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return fsync(descriptor) == 0
    }
}
