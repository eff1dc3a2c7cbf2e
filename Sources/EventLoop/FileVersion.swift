// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Identifies the version of a file by its device, inode, size and times, without reading it.
package struct FileVersion: Equatable, Sendable {
    private let device: dev_t
    private let inode: ino_t
    private let size: off_t
    private let written: (time_t, Int)
    /// The ctime, which also changes when the owner or mode changes.
    private let changed: (time_t, Int)

    /// The current version of the file at `path`, following symbolic links; `nil` if there is none.
    package init?(of path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        device = status.st_dev
        inode = status.st_ino
        size = status.st_size
        written = (status.st_mtim.tv_sec, status.st_mtim.tv_nsec)
        changed = (status.st_ctim.tv_sec, status.st_ctim.tv_nsec)
    }

    /// Whether all attributes are equal.
    package static func == (one: Self, other: Self) -> Bool {
        one.device == other.device && one.inode == other.inode && one.size == other.size
            && one.written == other.written && one.changed == other.changed
    }
}
