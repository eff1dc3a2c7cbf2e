// SPDX-License-Identifier: Apache-2.0

import CLinux
import Glibc

/// Protects the secrets of this process. Call before the first secret is read.
package enum ProcessHardening {
    /// Disables core dumps, as files and through a core handler, and keeps debuggers of the same user out. Child
    /// processes, such as tor, write no core file either.
    /// - Returns: whether everything succeeded. The node can run even if not.
    package static func forbidCoreDumps() -> Bool {
        // The limit alone is not enough: a kernel.core_pattern that pipes to a program ignores it.
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        let isLimited = setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none) == 0
        return clinux_prctl(PR_SET_DUMPABLE, 0) == 0 && isLimited
    }

    /// Raises the soft limit of open files to the hard limit: each connection needs a descriptor.
    /// - Returns: the limit that now applies.
    package static func raiseOpenFiles() -> UInt64 {
        let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        getrlimit(files, &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(files, &limit)
        getrlimit(files, &limit)
        return UInt64(limit.rlim_cur)
    }

    /// Gives up root's capabilities, if this process has any, except those for files of other users and for ports below
    /// 1024.
    /// - Returns: whether it succeeded.
    package static func dropCapabilities() -> Bool { clinux_keep_capabilities(clinux_file_capabilities) == 0 }

    /// Whether this process has a single thread: Landlock confines only the thread that asks for it, and those that it
    /// starts.
    package static var hasOneThread: Bool {
        guard let directory = opendir("/proc/self/task") else { return false }
        defer { closedir(directory) }
        var count = 0
        while let entry = readdir(directory) { if entry.pointee.d_name.0 != CChar(UInt8(ascii: ".")) { count += 1 } }
        return count == 1
    }
}
