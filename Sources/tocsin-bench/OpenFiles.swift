// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The limit of open files of this process.
enum OpenFiles {
    /// Allows as many as the system lets this process have.
    /// - Returns: how many that are.
    @discardableResult static func allowMost() -> Int {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        return Int(clamping: limit.rlim_cur)
    }
}
