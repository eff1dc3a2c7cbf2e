// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The free space of the disks.
package enum DiskSpace {
    /// The free bytes of a simulated disk, in place of the real one's; `nil` outside a simulation. Unsafe, because a
    /// simulation has one thread.
    nonisolated(unsafe) package static var simulated: (() -> Int)?

    /// The bytes available to this process on the disk of the file at `path`; the largest number if they are unknown.
    package static func free(at path: String) -> Int {
        if let simulated { return simulated() }
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { return .max }
        return Int(clamping: status.f_bavail &* status.f_frsize)
    }
}
