// SPDX-License-Identifier: Apache-2.0

import Glibc

/// This process's limit of open files.
enum OpenFiles {
    /// Raises the limit to the hard limit.
    /// - Returns: the new limit.
    @discardableResult static func raiseLimit() -> Int {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        return Int(clamping: limit.rlim_cur)
    }
}
