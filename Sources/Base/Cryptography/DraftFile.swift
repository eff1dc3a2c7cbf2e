// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Writes small files as a whole: a reader sees the old file or the new one, and a crash leaves one of them.
package enum DraftFile {
    /// Writes a file through a draft beside it.
    /// - Parameters:
    ///   - draft: the draft of a file that only one process writes at a time: the next write removes what a crash has
    ///     left. By default each process has a draft of its own.
    ///   - owner: the file's user and group; only root sets them.
    ///   - replacing: whether an existing file is replaced.
    ///   - isDurable: whether file and name are on the disk when this returns. If not, a power failure may leave an
    ///     empty file.
    /// - Returns: 0; after a failure, the error number: `EEXIST` if a file exists that is not to be replaced.
    package static func write(
        _ bytes: RawSpan, to file: String, through draft: String? = nil, mode: mode_t = 0o600,
        owner: (user: uid_t, group: gid_t)? = nil, replacing: Bool, isDurable: Bool
    ) -> Int32 {
        let draft = draft ?? "\(file).draft\(getpid())"
        unlink(draft)
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { return errno }
        defer {
            close(descriptor)
            unlink(draft)
        }
        let written = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
        // A disk that takes only a part of so few bytes is full.
        guard written == bytes.byteCount else { return written < 0 ? errno : ENOSPC }
        guard fchmod(descriptor, mode) == 0, !isDurable || fsync(descriptor) == 0 else { return errno }
        if geteuid() == 0, let owner, fchown(descriptor, owner.user, owner.group) != 0 { return errno }
        // Unlike rename(), link() does not replace a file that has appeared meanwhile.
        guard (replacing ? rename(draft, file) : link(draft, file)) == 0 else { return errno }
        return isDurable && !PrivateFile.syncDirectory(of: file) ? errno : 0
    }
}
