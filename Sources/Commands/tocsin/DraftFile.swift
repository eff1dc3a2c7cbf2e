// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Writes a file as a whole: a reader sees the old file or the new one, and a crash leaves one of them.
enum DraftFile {
    /// Writes a file through a draft beside it.
    /// - Parameters:
    ///   - owner: the file's user and group, which only root can set; ignored for other users.
    ///   - replacing: whether an existing file is replaced.
    /// - Returns: 0; after a failure, the error number, and the file is unchanged.
    static func write(
        _ text: String, to file: String, mode: mode_t, owner: (user: uid_t, group: gid_t)?, replacing: Bool
    ) -> Int32 {
        let draft = "\(file).draft\(getpid())"
        unlink(draft)
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode)
        guard descriptor >= 0 else { return errno }
        defer {
            close(descriptor)
            unlink(draft)
        }
        let bytes = Array(text.utf8)
        guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count, fchmod(descriptor, mode) == 0,
            fsync(descriptor) == 0
        else { return errno }
        if geteuid() == 0, let owner { _ = fchown(descriptor, owner.user, owner.group) }
        // Unlike rename(), link() does not replace a file that has appeared meanwhile.
        return (replacing ? rename(draft, file) : link(draft, file)) == 0 ? 0 : errno
    }
}
