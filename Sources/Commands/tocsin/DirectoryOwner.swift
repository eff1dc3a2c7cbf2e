// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Diagnostics
import Glibc
import Settings
import Tor

/// Lets root's commands on the node's state directory, or on tor's, act as its owner. Files that they create then belong to
/// that user, and a symbolic link in the directory leads only to files that this user can access.
enum DirectoryOwner {
    /// If root started the process, takes on the identity of the directory's owner; if the directory does not exist,
    /// that of root.
    /// - Throws: the exit code, after printing the error.
    static func actAsOwner(of directory: String) throws {
        var status = stat()
        guard getuid() == 0 else { return }
        asRoot()
        guard lstat(directory, &status) == 0 else { return }
        // Follows only root's links: another user's link may lead to what that user cannot access.
        if status.st_mode & S_IFMT == S_IFLNK, status.st_uid == 0, stat(directory, &status) != 0 { return }
        guard status.st_uid != 0 else { return }
        let isOwner = setgroups(1, [status.st_gid]) == 0 && setegid(status.st_gid) == 0 && seteuid(status.st_uid) == 0
        guard isOwner else {
            throw fail(
                "cannot act as \(UserName.of(status.st_uid)), the owner of \(directory): \(String(cString: strerror(errno)))",
                .failure)
        }
    }

    /// Takes on the identity of the user who owns the onions' keys: the owner of tor's directory if tor runs as a user
    /// of its own, otherwise the node's user, because the node can replace tor's directory by a link.
    /// - Throws: the exit code, after printing the error.
    static func actAsOwnerOfOnions(_ tor: TorSettings, state: String) throws {
        guard tor.runnerInUse == .service else { return try actAsOwner(of: state) }
        try actAsOwner(of: tor.directory)
        guard geteuid() != 0 else {
            throw fail("\(tor.directory) does not belong to a user of tor's own", .configuration)
        }
    }

    /// Runs `body` as the user who started the command, e.g. to write a file for that user.
    static func asCaller<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        let (user, group) = (geteuid(), getegid())
        guard getuid() == 0, user != 0 else { return try body() }
        asRoot()
        defer { _ = (setegid(group), seteuid(user)) }
        return try body()
    }

    private static func asRoot() { _ = (seteuid(0), setegid(0)) }
}
