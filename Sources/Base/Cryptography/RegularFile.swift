// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Reads whole files, within a size limit.
package enum RegularFile {
    /// Who may access the file.
    package enum Access: Sendable {
        case anyone
        /// Its owner only.
        case owner
        /// This process's user only, who must own it; the path must not be a symbolic link.
        case thisUser
    }

    /// Why a file cannot be read.
    package enum Failure: Error, Equatable, Codable, Sendable {
        /// A system call failed with this `errno`; `ENOENT` if the file does not exist.
        case system(Int32)
        /// The path names a directory, a pipe or a device.
        case notRegular
        /// More users can access the file than ``Access`` permits, or another user owns it.
        case accessibleByOthers
        /// The file has this many bytes.
        case tooLarge(Int)
    }

    /// Reads a file.
    /// - Parameters:
    ///   - limit: the maximum size in bytes.
    ///   - access: the users who may have access to the file; reading fails if others have.
    ///   - directory: the canonical path of a directory whose files are refused, whatever links lead to them; `nil` for
    ///     none.
    ///   - copies: used in place of the files themselves.
    package static func read(
        _ path: String, atMost limit: Int, access: Access = .anyone, notBeneath directory: String? = nil,
        copies: FileCopies? = nil
    ) throws(Failure) -> [UInt8] {
        if let copy = try copies?.read(path, atMost: limit, access: access) { return copy }
        // Non-blocking: opening a pipe would otherwise wait for a writer.
        let flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (access == .thisUser ? O_NOFOLLOW : 0)
        let descriptor = open(path, flags)
        guard descriptor >= 0 else { throw .system(errno) }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw .system(errno) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .notRegular }
        if let directory, isOpen(descriptor, beneath: directory) { throw .system(EACCES) }
        guard access == .anyone || status.st_mode & 0o077 == 0 else { throw .accessibleByOthers }
        guard access != .thisUser || status.st_uid == geteuid() else { throw .accessibleByOthers }
        guard status.st_size <= limit else { throw .tooLarge(Int(status.st_size)) }
        var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
        var length = 0
        while length < bytes.count {
            let count = bytes.withUnsafeMutableBytes {
                Glibc.read(descriptor, $0.baseAddress! + length, $0.count - length)
            }
            guard count >= 0 else { throw .system(errno) }
            // The file has become shorter meanwhile.
            guard count > 0 else { break }
            length += count
        }
        bytes.removeLast(bytes.count - length)
        return bytes
    }

    /// Whether an open file is beneath a directory. Asks the kernel for the file's place, because its path may have changed
    /// since; a file whose place is unknown counts as beneath it.
    private static func isOpen(_ descriptor: Int32, beneath directory: String) -> Bool {
        guard let place = realpath("/proc/self/fd/\(descriptor)", nil) else { return true }
        defer { free(place) }
        return String(cString: place).hasPrefix(directory == "/" ? "/" : "\(directory)/")
    }
}
