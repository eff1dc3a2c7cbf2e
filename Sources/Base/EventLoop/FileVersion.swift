// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Identifies the version of a file by its device, inode, size and times, without reading it.
package struct FileVersion: Equatable, Sendable {
    /// Device, inode, size, mtime and ctime; the ctime also changes when the owner or mode changes.
    private let attributes: [Int]

    /// The current version of the file at `path`, following symbolic links; `nil` if there is none.
    package init?(of path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        attributes = [
            Int(truncatingIfNeeded: status.st_dev), Int(truncatingIfNeeded: status.st_ino), status.st_size,
            status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ctim.tv_sec, status.st_ctim.tv_nsec,
        ]
    }
}
