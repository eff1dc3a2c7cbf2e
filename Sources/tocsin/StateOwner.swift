// SPDX-License-Identifier: Apache-2.0

import Console
import Diagnostics
import Glibc
import TocsinNode

/// Root's commands on a state directory act as its owner: what they make there belongs to the node's user, and a file there
/// that leads elsewhere leads no further than that user could go.
enum StateOwner {
    /// From here on the process acts as the owner of this directory, where it is root and the owner is not.
    /// - Throws: the exit code, after saying what is wrong.
    static func act(onStateAt state: String) throws {
        var status = stat()
        guard geteuid() == 0, stat(state, &status) == 0, status.st_uid != 0 else { return }
        let isOwner =
            setgroups(1, [status.st_gid]) == 0 && setegid(status.st_gid) == 0 && seteuid(status.st_uid) == 0
        guard isOwner else {
            throw fail(
                "cannot act as \(UserName.of(status.st_uid)), the owner of \(state): \(String(cString: strerror(errno)))",
                ExitStatus.failure)
        }
    }

    /// Does something as the user who called, e.g. writes a file that is for them.
    static func asCaller<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        let (user, group) = (geteuid(), getegid())
        guard getuid() == 0, user != 0 else { return try body() }
        _ = (seteuid(0), setegid(0))
        defer { _ = (setegid(group), seteuid(user)) }
        return try body()
    }
}
