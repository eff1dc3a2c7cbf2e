// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Reads whole files, within a size limit.
package enum RegularFile {
    /// Who may access the file.
    package enum Access: Sendable {
        case anyone
        /// Its owner only, or the processes to which a service manager or a container runtime has given it; see
        /// ``RegularFile/isPrivate(mode:in:secretDirectories:isShielded:)``.
        case owner
        /// This process's user only, who must own it; the path must not be a symbolic link.
        case thisUser
    }

    /// Why a file cannot be read.
    package enum Failure: Error, Equatable, Codable, Sendable {
        /// A system call failed with this `errno`: `ENOENT` if the file does not exist. Also `EACCES` for a file
        /// beneath a directory that is refused.
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
        switch access {
        case .anyone: break
        case .owner: guard isPrivate(descriptor, mode: status.st_mode) else { throw .accessibleByOthers }
        case .thisUser: guard status.st_mode & 0o077 == 0 else { throw .accessibleByOthers }
        }
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

    /// Whether an open file is beneath a directory; a file whose place is unknown counts as beneath it.
    private static func isOpen(_ descriptor: Int32, beneath directory: String) -> Bool {
        place(of: descriptor).map { $0.hasPrefix(directory == "/" ? "/" : "\(directory)/") } ?? true
    }

    /// The path of an open file without links. The kernel knows it: the path by which it was opened may have changed since.
    private static func place(of descriptor: Int32) -> String? {
        guard let place = realpath("/proc/self/fd/\(descriptor)", nil) else { return nil }
        defer { free(place) }
        return String(cString: place)
    }

    // MARK: Secrets

    /// Where container runtimes (Docker, Podman) and systemd (`systemd.exec(5)`, `LoadCredential=`) put a process's secrets.
    private static let secretDirectories = ["/run/secrets", "/run/credentials"]

    /// Whether only its owner can access a file of this mode, or only the processes to which it was given. A service manager
    /// or a container runtime gives a process its secrets as files that the process's user can read, of mode 0440 or 0444. It
    /// keeps others away by a mount in the container or the unit alone, or by a directory that no others can enter.
    /// - Parameters:
    ///   - place: the file's path without links; `nil` if it is not known.
    ///   - isShielded: whether such a mount or directory holds the file beneath this directory.
    static func isPrivate(
        mode: mode_t, in place: String?, secretDirectories: [String], isShielded: (_ directory: String) -> Bool
    ) -> Bool {
        if mode & 0o077 == 0 { return true }
        guard mode & 0o033 == 0, let place else { return false }
        return secretDirectories.contains {
            $0.hasPrefix("/") && place.hasPrefix("\($0)/") && isShielded($0)
        }
    }

    private static func isPrivate(_ descriptor: Int32, mode: mode_t) -> Bool {
        let given = getenv("CREDENTIALS_DIRECTORY").map { String(cString: $0) }
        let place = place(of: descriptor)
        return isPrivate(
            mode: mode, in: place, secretDirectories: secretDirectories + [given].compactMap(\.self)
        ) { directory in place.map { isShielded(descriptor, at: $0, beneath: directory) } ?? false }
    }

    /// Whether something keeps others from a file beneath a directory: a mount of its own, if the directory is in /run, or a
    /// directory on the way that others cannot enter.
    private static func isShielded(_ file: Int32, at place: String, beneath directory: String) -> Bool {
        let run = open("/run", pathOnly | O_CLOEXEC)
        defer { if run >= 0 { close(run) } }
        if directory.hasPrefix("/run/"), let own = mount(of: file), let other = mount(of: run), own != other {
            return true
        }
        var status = stat()
        var path = place
        while path.count > directory.count, let slash = path.lastIndex(of: "/") {
            path = String(path[..<slash])
            if stat(path, &status) == 0, status.st_mode & 0o007 == 0 { return true }
        }
        return false
    }

    /// O_PATH of <asm-generic/fcntl.h>, which Glibc's module lacks: opens a path without the right to read it.
    private static let pathOnly: Int32 = 0o10_000_000

    /// The number of the mount that an open file is on (proc_pid_fdinfo(5), `mnt_id`).
    private static func mount(of descriptor: Int32) -> Int? {
        let file = open("/proc/self/fdinfo/\(descriptor)", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 512)
        let count = bytes.withUnsafeMutableBytes { Glibc.read(file, $0.baseAddress, $0.count) }
        guard count > 0 else { return nil }
        let line = bytes[..<count].split(separator: UInt8(ascii: "\n")).first { $0.starts(with: "mnt_id:".utf8) }
        return line.flatMap { Int(String(decoding: $0.dropFirst(7).drop { $0 == 9 || $0 == 32 }, as: UTF8.self)) }
    }

    /// Whether a file may be read with ``Access/owner``. `true` also if the file cannot be opened, because reading it
    /// reports that.
    package static func isPrivate(_ path: String) -> Bool {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return true }
        defer { close(descriptor) }
        var status = stat()
        return fstat(descriptor, &status) != 0 || isPrivate(descriptor, mode: status.st_mode)
    }
}
