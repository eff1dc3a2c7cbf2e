// SPDX-License-Identifier: Apache-2.0

import CLinux
import Glibc

/// Which files a confined process may use, on which TCP ports it may listen, and to which processes it may send
/// signals; Landlock (landlock(7)) refuses all others. The rules hold for the thread that applies them and for all
/// threads and processes that it starts, and cannot be lifted.
///
/// A rule for a directory holds for everything beneath it. A rule for a file holds for that file, not for another one
/// that takes its name. Paths that cannot be opened, such as those that do not exist, are skipped.
package struct FileRules: Equatable, Sendable {
    /// Files and directories that may be read.
    package var readable: [String] = []
    /// Files and directories that may be read, written, created and removed; no device files may be created.
    package var writable: [String] = []
    /// Directories in which unix sockets may be made, and any files removed.
    package var socketDirectories: [String] = []
    /// Programs, and directories of programs, that may be read and executed.
    package var executable: [String] = []
    /// TCP ports on which the process may listen; `nil` to restrict none. Needs Landlock 4 (Linux 6.7).
    package var listeningPorts: [UInt16]?

    package init() {}

    /// Why the rules cannot be applied.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String

        init(_ action: String) { description = "Landlock: cannot \(action): \(String(cString: strerror(errno)))" }
    }

    private static let read = UInt64(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
    private static let execute = UInt64(LANDLOCK_ACCESS_FS_EXECUTE)
    /// The rights that apply to files which are not directories: execute, write, read, truncate, and ioctl on devices.
    private static let ofFiles: UInt64 = 0b111 | 1 << 14 | 1 << 15
    private static let versionOfNetwork = 4
    private static let versionOfScopes = 6

    /// The version of the kernel's Landlock; 0 if it has none.
    package static var version: Int { max(0, Int(clinux_landlock_version())) }

    /// All rights for files that a version of Landlock knows, as a bit set.
    private static func allRights(_ version: Int) -> UInt64 {
        var count = 13
        if version >= 2 { count += 1 }
        if version >= 3 { count += 1 }
        if version >= 5 { count += 1 }
        return 1 << count - 1
    }

    /// Confines this thread. From Landlock 6 (Linux 6.12) on, it can then send signals only to processes with the same
    /// rules.
    /// - Returns: the version of Landlock; 0 if the kernel has none, and then nothing is confined.
    /// - Throws: ``Failure``.
    package func apply() throws(Failure) -> Int {
        let version = Self.version
        guard version > 0 else { return 0 }
        let all = Self.allRights(version)
        let hasNetwork = version >= Self.versionOfNetwork
        let hasScopes = version >= Self.versionOfScopes
        var handled = clinux_ruleset(
            files: all,
            network: hasNetwork && listeningPorts != nil ? UInt64(CLINUX_NETWORK_BIND) : 0,
            scopes: hasScopes ? UInt64(CLINUX_SCOPE_SIGNAL) : 0)
        let size = hasScopes ? 24 : hasNetwork ? 16 : 8
        let ruleset = clinux_landlock_create(&handled, size)
        guard ruleset >= 0 else { throw Failure("create a ruleset") }
        defer { close(ruleset) }
        for path in readable { try allow(path, Self.read & all, in: ruleset) }
        for path in executable { try allow(path, (Self.read | Self.execute) & all, in: ruleset) }
        let sockets = UInt64(LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_REMOVE_FILE)
        for path in socketDirectories { try allow(path, sockets, in: ruleset) }
        // The process needs to make no device files.
        let write = all & ~(Self.execute | UInt64(LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK))
        for path in writable { try allow(path, write, in: ruleset) }
        if hasNetwork, let listeningPorts {
            for port in listeningPorts
            where clinux_landlock_allow_port(ruleset, UInt64(CLINUX_NETWORK_BIND), port) != 0 {
                throw Failure("allow port \(port)")
            }
        }
        guard clinux_prctl(PR_SET_NO_NEW_PRIVS, 1) == 0, clinux_landlock_restrict(ruleset) == 0 else {
            throw Failure("confine the process")
        }
        return version
    }

    private func allow(_ path: String, _ rights: UInt64, in ruleset: Int32) throws(Failure) {
        let descriptor = clinux_open_path(path)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return }
        let applicable = status.st_mode & S_IFMT == S_IFDIR ? rights : rights & Self.ofFiles
        guard clinux_landlock_allow_beneath(ruleset, descriptor, applicable) == 0 else {
            throw Failure("add the rule for \(path)")
        }
    }
}
